"""Operations beyond a declaration: uploads, messages, and changes with None as a value."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._connect import UNCHANGED, MaybeTimeout, Unchanged
from carrel._operations import Operation, Resource
from carrel._uploads import FileInput, Upload, UploadProgress, source_of
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnyResourceType
from carrel.wire import agents, messages, uploads
from carrel.wire.common import ResourceType

M = TypeVar("M")

# The service answers an upload within about 20 seconds, or, during many uploads, after their turn.
UPLOAD_PATIENCE = 600.0
# The same for an upload that waits until the document is indexed.
INDEXING_PATIENCE = 3600.0
# The service answers when the reply is complete, by default within two minutes.
REPLY_PATIENCE = 300.0


class Uploads(Resource[M]):
    """Uploads of documents."""

    @Operation
    def upload_file(
        self,
        file: FileInput,
        *,
        document_external_id: str,
        document_name: str | None = None,
        file_name: str | None = None,
        collection_id: Id | None = None,
        upload_as_user_email: str | None = None,
        allowed_users_email_addresses: Sequence[str] | None = None,
        allowed_group_ids: Sequence[Id] | None = None,
        internal_public: bool | None = None,
        document_external_url: str | None = None,
        custom_metadata: Mapping[str, str] | None = None,
        source_system_updated: datetime | str | None = None,
        resource_id: str | None = None,
        resource_type: AnyResourceType | None = None,
        force_update: bool = False,
        read_pictures: bool | None = None,
        reindex_collections: bool = True,
        fingerprint: str | None = None,
        await_vector_store_sync: bool = False,
        on_progress: UploadProgress | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[uploads.UploadFileResponse]:
        """Upload a document, or update the document with the same external id.

        `file` is a path, bytes, or a file open for reading bytes; it is streamed, not loaded into memory. Omitted
        access stays unchanged; a new document without access is readable only by its uploader. With
        `await_vector_store_sync` the call returns when the document is searchable, however long indexing takes;
        otherwise `indexing` says whether it is. With `read_pictures`, text in pictures within the file is also read by
        machine (OCR), after the answer; updates keep this setting unless given. The upload is repeated after a broken
        connection unless `file` can't be rewound. Raises PermissionDeniedError `external_id_taken` when another
        person's document has the external id. `on_progress` is called with the number of the file's bytes sent to the
        socket, and the file's size (None for a pipe): with 0 at each attempt, then after each piece of up to 256 KiB.
        An exception from `on_progress` stops the upload. An AsyncCarrel calls it in the event loop."""
        form = uploads.UploadFileForm(
            document_external_id=document_external_id,
            document_name=document_name,
            collection_id=as_any(UUID, collection_id),
            upload_as_user_email=upload_as_user_email,
            allowed_users_email_addresses=as_list(str, allowed_users_email_addresses),
            allowed_group_ids=as_list(UUID, allowed_group_ids),
            internal_public=internal_public,
            document_external_url=document_external_url,
            custom_metadata=None if custom_metadata is None else dict(custom_metadata),
            source_system_updated=as_any(datetime, source_system_updated),
            resource_id=resource_id,
            resource_type=as_any(ResourceType, resource_type),
            force_update=force_update,
            read_pictures=read_pictures,
            reindex_collections=reindex_collections,
            fingerprint=fingerprint,
            await_vector_store_sync=await_vector_store_sync,
        )
        source = source_of(file, file_name=file_name, fallback_name=document_name or document_external_id)
        upload = Upload(fields=form.parts(), part="file", source=source, on_progress=on_progress)
        patience = INDEXING_PATIENCE if await_vector_store_sync else UPLOAD_PATIENCE
        return Call(uploads.UPLOAD_FILE, upload, patience=patience)

    @Operation
    def upload_document_file(
        self,
        file: FileInput,
        *,
        file_name: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[uploads.UploadDocumentFileResponse]:
        """Upload a document under a generated external id (deprecated: use `upload_file`)."""
        source = source_of(file, file_name=file_name, fallback_name="document")
        upload = Upload(fields={}, part="document", source=source)
        return Call(uploads.UPLOAD_DOCUMENT_FILE, upload, patience=UPLOAD_PATIENCE)


class AgentChanges(Resource[M]):
    """Changes of agents."""

    @Operation
    def update(
        self,
        agent_id: Id,
        *,
        name: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        model: str | Unchanged | None = UNCHANGED,
        collection_ids: Iterable[Id] | None = None,
        api_access_enabled: bool | None = None,
        retrieval: agents.RetrievalOptions | Members | None = None,
        starter_questions: Iterable[str] | None = None,
        answers_searches: bool | None = None,
        version: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[agents.AdminAgentsUpdateResponse]:
        """Change an agent from the next message on; omitted settings stay. `model=None` selects the service's default.
        `retrieval` replaces all retrieval options, `starter_questions` all questions."""
        given: dict[str, Any] = {
            "name": name,
            "description": description,
            "instructions": instructions,
            "collection_ids": as_list(UUID, collection_ids),
            "api_access_enabled": api_access_enabled,
            "retrieval": as_any(agents.RetrievalOptions, retrieval),
            "starter_questions": as_list(str, starter_questions),
            "answers_searches": answers_searches,
            "version": version,
        }
        changes = {member: value for member, value in given.items() if value is not None}
        if model is not UNCHANGED:
            changes["model"] = model
        request = agents.AdminAgentsUpdateRequest(agent_id=as_any(UUID, agent_id), **changes)
        return Call(agents.ADMIN_AGENTS_UPDATE, request)


class Messages(Resource[M]):
    """Messages to agents."""

    @Operation
    def send_message(
        self,
        agent_id: Id,
        message: str,
        *,
        conversation_id: Id | None = None,
        user_email: str | None = None,
        timeout: MaybeTimeout = UNCHANGED,
        headers: Mapping[str, str] | None = None,
    ) -> Call[messages.SendMessageResponse]:
        """Send a message, in a new conversation unless one is named, and wait for the reply. The result's `type` is
        `ai_response_result`, or `blocked_result` for a reply based on documents that the caller may no longer read.
        Raises NotFoundError for an agent that isn't deployed to the caller, PermissionDeniedError `api_access_off`, and
        ServerError when the model gives no reply. A message repeated after a broken connection is answered once."""
        return message_call(agent_id, message, conversation_id=conversation_id, user_email=user_email)


def message_call(
    agent_id: Id, message: str, *, conversation_id: Id | None, user_email: str | None
) -> Call[messages.SendMessageResponse]:
    """Return the call to send a message on v0."""
    request = messages.SendMessageRequest(
        agent_id=as_any(UUID, agent_id),
        message=message,
        conversation_id=as_any(UUID, conversation_id),
        user_email=user_email,
    )
    return Call(messages.SEND_MESSAGE, request, patience=REPLY_PATIENCE)
