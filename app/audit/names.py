"""What ids of the audit log are called: people, groups, accounts, collections, agents, applications and documents."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias
from uuid import UUID

from app.audit.deeds import EVERYBODY, HOLDER
from app.vocabulary import AGENT, COLLECTION, DOCUMENT, GROUP, PERSON, SERVICE_ACCOUNT
from carrel import Carrel

MOST = 1000
"""So many people, groups, accounts and applications are known by name; the ids of others stay ids."""

FRESH_SECONDS = 60.0

_RESOURCES = frozenset({DOCUMENT, COLLECTION, AGENT})
_AT_ONCE = 8

Ask: TypeAlias = Callable[[Carrel], dict[str, str]]


class Names:
    """The names a session knows, by id: each kind is asked for once something of it is named, all at once.

    They hold for a minute from the first, then all is asked for anew.
    """

    def __init__(self) -> None:
        self._lists: dict[Ask, dict[str, str]] = {}
        self._resources: dict[str, str] = {}
        self._since = 0.0

    def of(self, client: Carrel, wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the names of what is wanted, as (kind, id), and of others; what is gone has none."""
        if time.monotonic() - self._since > FRESH_SECONDS:
            self._lists, self._resources, self._since = {}, {}, time.monotonic()
        pairs = frozenset(wanted)
        lists = {ask for kind, _ in pairs for ask in _LISTS.get(kind, ())} - self._lists.keys()
        ids = {one for kind, one in pairs if kind in _RESOURCES} - self._resources.keys()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            resources = pool.submit(_named_resources, client, ids) if ids else None
            asked = {ask: pool.submit(ask, client) for ask in lists}
        self._lists |= {ask: names.result() for ask, names in asked.items()}
        if resources is not None:
            self._resources |= resources.result()
        return self.known()

    def of_everybody(self, client: Carrel) -> dict[str, str]:
        """Return the names of all people, groups, accounts and applications, and of the resources that are known."""
        return self.of(client, [(kind, "") for kind in _LISTS])

    def known(self) -> dict[str, str]:
        """Return what is known without asking."""
        return {one: name for names in (*self._lists.values(), self._resources) for one, name in names.items()}


def _named_resources(client: Carrel, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of documents, collections and agents by id; none for those that are gone."""
    found = dict.fromkeys(ids, "")
    asked = [one for one in found if _is_id(one)]
    if asked:
        listed = client.admin.access.list_resources(object_ids=asked, page_size=MOST)
        found |= {str(one.object_id): one.name or "" for one in next(listed.pages()).resources}
    return found


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _everybody(client: Carrel) -> dict[str, str]:
    """Return what the organization is called that holds a role."""
    return {str(client.admin.organization.get().organization_id): EVERYBODY}


def _people(client: Carrel) -> dict[str, str]:
    page = next(client.admin.users.list(page_size=MOST).pages())
    return {str(one.id): one.name for one in page.users}


def _groups(client: Carrel) -> dict[str, str]:
    page = next(client.admin.groups.list(page_size=MOST).pages())
    return {str(one.id): one.name for one in page.groups}


def _accounts(client: Carrel) -> dict[str, str]:
    page = next(client.admin.service_accounts.list(page_size=MOST).pages())
    return {str(one.service_account_id): one.display_name for one in page.service_accounts}


def _applications(client: Carrel) -> dict[str, str]:
    page = next(client.admin.oauth_clients.list(page_size=MOST).pages())
    return {str(one.client_id): one.name for one in page.oauth_clients}


_LISTS: Mapping[str, tuple[Ask, ...]] = {
    PERSON: (_people,),
    GROUP: (_groups,),
    SERVICE_ACCOUNT: (_accounts,),
    "oauthClient": (_applications,),
    "organization": (_everybody,),
    HOLDER: (_everybody, _people, _groups, _accounts),
}
