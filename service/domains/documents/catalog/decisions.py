"""The rules of an upload, without changing data; a plan decides on up to a thousand documents before any upload."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import ResourceType
from carrel.wire.uploads import PlanAction, PlannedUpload, UploadFileForm, UploadPlan
from service.auth.callers import ActingFor, Caller
from service.domains.documents.catalog import queries
from service.domains.documents.collections.service import Placement, check_placement, refuse_caller_chunks
from service.domains.documents.stored.containers import Container, refuse_contained
from service.domains.documents.stored.queries import AskedDocument, DocumentFields, NamedBy, StoredDocument
from service.permissions.access import Access
from service.permissions.rights import external_id_taken, require_sharing, require_update
from service.permissions.service import resolve_readers
from service.platform.batches import Answer
from service.platform.errors import BadRequest, Conflict, FieldError
from service.platform.identifiers import document_id_for
from service.web.multipart import ReceivedFile

_COMPARED = ("name", "external_url", "custom_metadata", "source_updated_at", "fingerprint")


@dataclass(frozen=True, slots=True)
class Upload:
    """A request to make a file the document with the form's external id. `new_only`: an existing document must come
    from the same file and key. `container`: the contents around the file. `title`: the file's own, or empty."""

    caller: Caller
    form: UploadFileForm
    file: ReceivedFile
    new_only: bool = False
    container: Container | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The intended state for `caller`, the state `before` (None: new), and `container_id`, the file around it."""

    upload: Upload
    caller: Caller
    document_id: UUID
    before: StoredDocument | None
    fields: DocumentFields
    access: Access
    resource: tuple[str, str]
    placement: Placement | None
    next_version: int
    new_contents: bool
    reads_pictures: bool
    container_id: UUID | None = None

    @property
    def new_version(self) -> bool:
        """Whether indexing is needed: for new contents, or for a new name, which is searched, too."""
        return self.new_contents or self.before is None or self.before.fields.name != self.fields.name

    @property
    def version(self) -> int:
        return self.next_version if self.before is None or self.new_version else self.before.version

    @property
    def nothing_to_do(self) -> bool:
        return self.before is not None and self.placement is None and not self.changes()

    def changes(self) -> list[str]:
        """Return the names of changed fields for the audit log; empty for a new document."""
        if self.before is None:
            return []
        compared = {name: getattr(self.before.fields, name) != getattr(self.fields, name) for name in _COMPARED}
        differs = {
            "contents": self.new_contents,
            "access": self.before.access != self.access,
            "source": (self.before.resource_type, self.before.resource_id) != self.resource,
            **compared,
        }
        return [name for name, changed in differs.items() if changed]


@dataclass(frozen=True, slots=True)
class AskedState:
    """Questions in a batch: the caller, the current document and container, and the number of the last version."""

    document_id: UUID
    acting: ActingFor
    container: AskedDocument | None
    document: AskedDocument
    last_version: Answer[dict[str, int]]


async def decide(connection: Connection, upload: Upload, state: AskedState) -> Decision:
    """Decide on an upload; a contained file gets the container's owner and access. Raises Forbidden
    `external_id_taken`, `owner_required`, `collection_editor_required`. NotFound for a collection without a role.
    Conflict `caller_chunks`, `document_in_container`, or `idempotency_key_reused` if `new_only`. BadRequest for unknown
    readers, wrong metadata or resourceType. ContainerChangedError after a change of the container. Errors of acting."""
    form, caller = upload.form, state.acting.caller()
    container = None
    if upload.container is not None and state.container is not None:
        container = upload.container.check(state.container.document)
    document_id, before = state.document_id, state.document.document
    fields = _merge_fields(caller, upload, before)
    if container is None:
        access = await _own_access(connection, caller, form, before)
    else:
        if before is not None and before.container_id != container.document_id:
            raise external_id_taken()
        access, fields = container.access, replace(fields, owner_id=container.fields.owner_id)
    reads_pictures = _reads_pictures(form, before, container)
    decision = Decision(
        upload,
        caller,
        document_id=document_id,
        before=before,
        fields=fields,
        access=access,
        resource=_resource(form, document_id, before),
        placement=await _check_placement(connection, caller, form, document_id),
        # Version numbers are never reused, not even those of a deleted document.
        next_version=1 + (state.last_version.row or {"version": 0})["version"],
        new_contents=before is None
        or form.force_update
        or before.file.sha256 != upload.file.sha256
        or before.file.reads_pictures != reads_pictures,
        reads_pictures=reads_pictures,
        container_id=None if container is None else container.document_id,
    )
    if upload.new_only and before is not None and decision.new_contents:
        raise Conflict("This Idempotency-Key was used for another file. Use a new key.", code="idempotency_key_reused")
    return _with_fingerprint(decision, form.fingerprint)


async def _own_access(
    connection: Connection, caller: Caller, form: UploadFileForm, before: StoredDocument | None
) -> Access:
    """Return the access to a document outside any container; refuse a contained file, and changes without the right."""
    if before is not None:
        require_update(before.access, caller)
        if before.container_id is not None:
            raise refuse_contained(before.container_id)
    access = await _access(connection, caller, form, before)
    if before is not None and access != before.access:
        require_sharing(before.access, caller)
    return access


async def _access(
    connection: Connection, caller: Caller, form: UploadFileForm, before: StoredDocument | None
) -> Access:
    """Return access as before unless the form names readers, who replace all others. Default: the uploader alone."""
    if before is not None and not form.names_access:
        return before.access
    owner_id = caller.principal_id if before is None else before.access.owner_id
    if not form.names_access:
        return Access(owner_id=owner_id)
    readers = await resolve_readers(connection, caller.organization_id, form)
    everyone = {caller.organization_id} if form.internal_public else set[UUID]()
    return Access(owner_id=owner_id, viewers=(readers | everyone) - {owner_id})


def _merge_fields(caller: Caller, upload: Upload, before: StoredDocument | None) -> DocumentFields:
    """Return the fields as sent, in an existing document only the sent fields, without the fingerprint."""
    form = upload.form
    name, named_by = _name(upload, before)
    if before is None:
        return DocumentFields(
            external_id=form.document_external_id,
            name=name,
            external_url=form.document_external_url,
            owner_id=caller.principal_id,
            custom_metadata=form.custom_metadata or {},
            fingerprint=form.fingerprint,
            source_updated_at=form.source_system_updated,
            named_by=named_by,
        )
    was = before.fields
    return replace(
        was,
        name=name,
        named_by=named_by,
        external_url=form.document_external_url or was.external_url,
        custom_metadata=was.custom_metadata if form.custom_metadata is None else form.custom_metadata,
        source_updated_at=form.source_system_updated or was.source_updated_at,
    )


def _name(upload: Upload, before: StoredDocument | None) -> tuple[str, NamedBy]:
    """Return the name and its giver. A rename stays, a sent name stays if none is sent, and a title if the file is not
    read. A sent `documentName` equal to the file's name, as loaders send, means the file's title, or else its name."""
    sent, file = upload.form.document_name, upload.file
    name_by: tuple[str, NamedBy] = upload.title or file.name, "FILE"
    if sent is not None and sent != file.name:
        name_by = sent, "UPLOAD"
    if before is None:
        return name_by
    was, has_file_name = before.fields.name, before.fields.name == before.file.name
    by = before.fields.named_by or ("FILE" if has_file_name else "UPLOAD")
    is_kept_title = name_by[1] == by == "FILE" and upload.title is None and not has_file_name
    return (was, by) if by == "RENAME" or is_kept_title or (by == "UPLOAD" and sent is None) else name_by


def _with_fingerprint(decision: Decision, fingerprint: str | None) -> Decision:
    """Keep an omitted fingerprint only while the fingerprinted state is unchanged."""
    if fingerprint is None and (decision.before is None or not decision.changes()):
        return decision
    return replace(decision, fields=replace(decision.fields, fingerprint=fingerprint))


def _reads_pictures(form: UploadFileForm, before: StoredDocument | None, container: StoredDocument | None) -> bool:
    """Return whether to read the file's pictures: as requested, or as before; in a container, as the container's."""
    if container is not None:
        return container.file.reads_pictures
    if form.read_pictures is not None:
        return form.read_pictures
    return before is not None and before.file.reads_pictures


def _resource(form: UploadFileForm, document_id: UUID, before: StoredDocument | None) -> tuple[str, str]:
    """Return (type, id) in the source system: sent, as before, or by documentId. BadRequest for a wrong documentId."""
    by_id = (str(ResourceType.UPLOADED_DOCUMENT), str(document_id))
    if form.resource_id is None or form.resource_type is None:
        return by_id if before is None else (before.resource_type, before.resource_id)
    requested = (str(form.resource_type), form.resource_id)
    if form.resource_type is ResourceType.UPLOADED_DOCUMENT and requested != by_id:
        message = "UPLOADED_DOCUMENT names documents by their documentId; use the type of the source system."
        raise BadRequest(message, details=[FieldError("resourceType", message)])
    return requested


async def _check_placement(
    connection: Connection, caller: Caller, form: UploadFileForm, document_id: UUID
) -> Placement | None:
    """Return the place in the form's collection (None: no collection); 404, 403, 400, and 409 for caller's chunks."""
    if form.collection_id is None:
        return None
    placement = await check_placement(
        connection,
        caller,
        document_id=document_id,
        collection_id=form.collection_id,
        custom_metadata=form.custom_metadata,
    )
    refuse_caller_chunks(placement)
    return placement


async def plan_uploads(connection: Connection, caller: Caller, *, planned: Sequence[PlannedUpload]) -> list[UploadPlan]:
    """Return each upload's effect, in order. FORBIDDEN reveals only that another principal has the external id."""
    organization_id = caller.organization_id
    names = {file.document_external_id for file in planned}
    stored = await queries.find_external_ids(connection, organization_id, names)
    ids = [document_id_for(organization_id, stored[file.document_external_id]) for file in planned]
    states = await queries.read_upload_states(connection, caller, document_ids=ids)
    return [_plan(file, document_id, states.get(document_id)) for document_id, file in zip(ids, planned, strict=True)]


def _plan(planned: PlannedUpload, document_id: UUID, state: tuple[str | None, bool, bool] | None) -> UploadPlan:
    external_id = planned.document_external_id
    if state is None:
        return UploadPlan(document_external_id=external_id, action=PlanAction.CREATE)
    fingerprint, may_update, shared = state
    if not may_update:
        return UploadPlan(document_external_id=external_id, action=PlanAction.FORBIDDEN)
    action = PlanAction.UNCHANGED if fingerprint == planned.fingerprint else PlanAction.UPDATE
    return UploadPlan(document_external_id=external_id, action=action, document_id=document_id, shared=shared)
