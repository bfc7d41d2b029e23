"""What ids of the audit log are called: people, groups, accounts, collections, agents, applications and documents."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias

from app.audit.actions import EVERYBODY, HOLDER
from app.labels import AGENT, COLLECTION, DOCUMENT, GROUP, PERSON, SERVICE_ACCOUNT
from app.lookup import is_id
from carrel import Carrel

FRESH_SECONDS = 60.0

APPLICATION = "oauthClient"
_AT_ONCE = 8
_A_CALL = 1000


@dataclass(frozen=True)
class _Called:
    """The name of an id; `facts`, if any, distinguish it from others of its kind and name."""

    kind: str
    id: object
    name: str
    facts: str = ""


Ask: TypeAlias = Callable[[Carrel, list[str]], Iterator[_Called]]


class Names:
    """The names that a session knows, by id; unknown ones are fetched kind by kind.

    All names are forgotten a minute after the first was fetched.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Called] = {}
        self._asked: set[tuple[str, str]] = set()
        self._since = 0.0

    def of(self, client: Carrel, wanted: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the names of the wanted (kind, id), and of others; deleted things have none."""
        if time.monotonic() - self._since > FRESH_SECONDS:
            self._known, self._asked, self._since = {}, set(), time.monotonic()
        missing = frozenset(wanted) - self._asked
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(partial(_answer, client), _questions(missing)))
        self._known |= {str(one.id): one for found in answers for one in found}
        self._asked |= missing
        return _disambiguate(self._known)


def _questions(missing: Iterable[tuple[str, str]]) -> list[tuple[Ask, list[str]]]:
    """Return the ids to look up of each kind, in batches of the size that a call takes."""
    ids: dict[Ask, set[str]] = {}
    for kind, identity in missing:
        for ask in _ASKED.get(kind, ()) if is_id(identity) else ():
            ids.setdefault(ask, set()).add(identity)
    return [(ask, some) for ask, all_ids in ids.items() for some in _in_calls(sorted(all_ids))]


def _in_calls(ids: list[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, _A_CALL)):
        yield some


def _answer(client: Carrel, question: tuple[Ask, list[str]]) -> list[_Called]:
    ask, ids = question
    return list(ask(client, ids))


def _disambiguate(known: Mapping[str, _Called]) -> dict[str, str]:
    shared = Counter((one.kind, one.name) for one in known.values())
    return {
        identity: f"{one.name} ({one.facts})" if one.facts and shared[one.kind, one.name] > 1 else one.name
        for identity, one in known.items()
    }


def _everybody(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    """Yield the name of the organization, if its id is among the ids."""
    organization_id = client.admin.organization.get().organization_id
    if str(organization_id) in ids:
        yield _Called(HOLDER, organization_id, EVERYBODY)


def _people(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    listed = client.admin.users.list(ids=ids, page_size=_A_CALL)
    return (_Called(PERSON, one.id, one.name, one.email) for one in listed)


def _groups(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    listed = client.admin.groups.list(ids=ids, page_size=_A_CALL)
    return (_Called(GROUP, one.id, one.name, f"…{str(one.id)[-6:]}") for one in listed)


def _accounts(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    listed = client.admin.service_accounts.list(ids=ids, page_size=_A_CALL)
    return (_Called(SERVICE_ACCOUNT, one.service_account_id, one.display_name, one.email) for one in listed)


def _applications(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    listed = client.admin.oauth_clients.list(ids=ids, page_size=_A_CALL)
    return (_Called(APPLICATION, one.client_id, one.name, f"…{str(one.client_id)[-6:]}") for one in listed)


def _resources(client: Carrel, ids: list[str]) -> Iterator[_Called]:
    listed = client.admin.access.list_resources(object_ids=ids, page_size=_A_CALL)
    return (_Called(DOCUMENT, one.object_id, one.name or "") for one in listed)


_ASKED: Mapping[str, tuple[Ask, ...]] = {
    PERSON: (_people,),
    GROUP: (_groups,),
    SERVICE_ACCOUNT: (_accounts,),
    APPLICATION: (_applications,),
    "organization": (_everybody,),
    HOLDER: (_everybody, _people, _groups, _accounts),
    DOCUMENT: (_resources,),
    COLLECTION: (_resources,),
    AGENT: (_resources,),
}
