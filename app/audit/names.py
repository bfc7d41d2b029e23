"""What ids of the audit log are called: people, groups, accounts, collections, agents, applications and documents."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from app.audit.deeds import EVERYBODY
from app.vocabulary import AGENT, COLLECTION, DOCUMENT, types_of
from carrel import Carrel

MOST = 1000
"""So many of each kind are known by name; the ids of others stay ids."""

_AT_ONCE = 8


def directory(client: Carrel) -> dict[str, str]:
    """Return names of all but documents by id, at most `MOST` of each kind; the organization stands for everybody."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = [pool.submit(ask, client) for ask in (_everybody, _people, _groups, _accounts, _applications, _places)]
    return {identity: name for names in found for identity, name in names.result().items()}


def documents(client: Carrel, ids: Sequence[str]) -> dict[str, str]:
    """Return the names of at most `MOST` documents by id, asked for at once; those that are gone have none."""
    asked = [one for one in ids if _is_id(one)]
    if not asked:
        return dict.fromkeys(ids, "")
    listed = client.admin.access.list_resources(object_ids=asked, page_size=MOST)
    return dict.fromkeys(ids, "") | {str(one.object_id): one.name or "" for one in next(listed.pages()).resources}


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def unnamed_documents(wanted: Iterable[tuple[str, str]], known: Mapping[str, str]) -> list[str]:
    """Return the ids of documents that have no name yet."""
    return sorted({identity for kind, identity in wanted if kind == DOCUMENT and identity not in known})


def _everybody(client: Carrel) -> dict[str, str]:
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


def _places(client: Carrel) -> dict[str, str]:
    listed = client.admin.access.list_resources(resource_types=types_of([COLLECTION, AGENT]), page_size=MOST)
    return {str(one.object_id): one.name for one in next(listed.pages()).resources if one.name}
