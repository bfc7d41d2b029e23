"""Names to ids: manifests name groups and collections; the service knows only ids."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from carrel import AsyncCarrel
from carrel.errors import BadRequestError, InvalidArgumentError, PermissionDeniedError
from carrel.wire.uploads import PlannedUpload
from flows.errors import NameUnknownError
from flows.operations.outages import OutagePolicy
from flows.operations.sources.documents import Access, Defaults, Problem, SourceDocument

Named = TypeVar("Named", Defaults, SourceDocument)


class Names:
    """Finds ids for names visible to the client's caller; reads groups and collections once each, when needed."""

    def __init__(self, client: AsyncCarrel, *, outages: OutagePolicy) -> None:
        self._client, self._outages = client, outages
        self._known: dict[str, Mapping[str, set[str]]] = {}

    async def resolve(self, documents: Iterable[SourceDocument]) -> list[SourceDocument | Problem]:
        """Return the documents with ids in place of names; a document with an unknown name becomes a Problem."""
        return [await self._resolve(document) for document in documents]

    async def with_ids(self, named: Named) -> Named:
        """Return a run's options, or a document, with ids in place of names. Raises NameUnknownError."""
        collection, access = named.collection, named.access
        if collection is None and (access is None or not access.groups):
            return named
        if access is not None:
            groups = {await self.id_of("group", group) for group in access.groups}
            access = replace(access, groups=tuple(sorted(groups)))
        return replace(named, collection=collection and await self.id_of("collection", collection), access=access)

    async def _resolve(self, document: SourceDocument) -> SourceDocument | Problem:
        try:
            return await self.with_ids(document)
        except NameUnknownError as exc:
            return Problem(document.place, exc.code, str(exc), document.external_id)

    async def id_of(self, kind: str, name: str) -> str:
        """Return the id of the group or collection (`kind`) of a name; an id is left as is. Raises NameUnknownError."""
        if _is_id(name):
            return name.lower()
        if kind not in self._known:
            known: defaultdict[str, set[str]] = defaultdict(set)
            for each, identifier in await self._outages.call(self._groups if kind == "group" else self._collections):
                known[each].add(identifier)
            self._known[kind] = known
        found = self._known[kind].get(name, set[str]())
        if len(found) == 1:
            return next(iter(found))
        what = f"there is no {kind}" if not found else f"there is more than one {kind}"
        raise NameUnknownError(f"{what.capitalize()} named {name!r}. Give its id, or create it first.")

    async def _groups(self) -> list[tuple[str, str]]:
        """Return groups by name and by external id. Raises NameUnknownError unless the key is an admin's."""
        found: list[tuple[str, str]] = []
        try:
            async for group in self._client.admin.groups.list(page_size=1000):
                found += [(name, str(group.id)) for name in (group.name, group.external_id) if name]
        except PermissionDeniedError as exc:
            msg = "Only an admin's key can find groups by name. Give their ids, or use an admin's key."
            raise NameUnknownError(msg) from exc
        return found

    async def _collections(self) -> list[tuple[str, str]]:
        """Return collections by name, and by a former name that no collection has now."""
        listed = [item async for item in self._client.document_collections.list_document_collections(page_size=1000)]
        named = {collection.collection_name for collection in listed}
        return [
            (name, str(collection.document_collection_id))
            for collection in listed
            for name in (collection.collection_name, *set(collection.former_names or ()).difference(named))
        ]


async def check_readers(client: AsyncCarrel, access: Access, *, outages: OutagePolicy) -> None:
    """Raise NameUnknownError for a user or group in the options but unknown to the service."""
    if not (access.users or access.groups):
        return
    nothing = PlannedUpload(document_external_id="carrel-flows-readers", fingerprint="-")
    plan, users = client.catalog.plan_upload, access.users
    ask = partial(plan, [nothing], allowed_users_email_addresses=users, allowed_group_ids=access.groups)
    try:
        await outages.call(ask)
    except (BadRequestError, InvalidArgumentError) as exc:
        # An older service refuses a plan's readers with another error, and an unknown reader along with its document.
        if isinstance(exc, InvalidArgumentError) or exc.code in {"unknown_principal", "unknown_user"}:
            raise NameUnknownError(f"A reader does not exist, so nothing was sent: {exc}") from exc


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
