"""Create or update a document from a file, all or nothing. `judge` compares the upload with the catalog, without a
lock. `read` extracts the text of new bytes outside any transaction. `commit` locks the document, judges again and saves
all in a transaction; if the file must now be read, `commit` saves no data and returns the new decision. So an
unreadable file, a refusal, a crash or a full disk leaves the document as before; at worst, an unreferenced file waits
for collection. decisions.py has the judging rules, writing.py a commit's rows, waiting.py the wait for the index."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TypeVar
from uuid import UUID

from carrel.wire.uploads import UploadFileForm
from service.auth.callers import Caller, ask_acting_for
from service.domains.documents.catalog.decisions import AskedState, Decision, Upload, decide
from service.domains.documents.catalog.queries import find_external_ids
from service.domains.documents.catalog.writing import Contents, SavedUpload, describe, write
from service.domains.documents.files.queries import keep_file
from service.domains.documents.stored.containers import Container
from service.domains.documents.stored.queries import StoredFile, ask_document, ask_version, lock_document
from service.index.progress import Half
from service.platform.batches import Batch
from service.platform.errors import Conflict
from service.platform.identifiers import document_id_for
from service.platform.sharing import Figure, Share
from service.runtime import Runtime
from service.web.multipart import ReceivedFile

Form = TypeVar("Form", bound=UploadFileForm)
MOST_COMMITS = 3
ACTING_PART = "uploadAsUserEmail"


LOOK_SECONDS = 1.0
# People wait for a search; a bulk load hardly slows down when its uploads wait for one another.
TURN_SECONDS, LATER_SECONDS = 0.05, 3.0


async def require_room(runtime: Runtime, organization_id: UUID, gives_up: Callable[[], bool] | None) -> None:
    """Wait for room up to `inline_indexing_seconds`, or until `gives_up()` (None: no wait); 503 if there is none."""
    for _ in range(int(runtime.settings.inline_indexing_seconds / LOOK_SECONDS)):
        if gives_up is None or gives_up() or not runtime.indexer.refused_seconds(organization_id):
            break
        await asyncio.sleep(LOOK_SECONDS)
    runtime.indexer.refuse_backlog(organization_id)


async def save_upload(
    runtime: Runtime,
    caller: Caller,
    *,
    form: UploadFileForm,
    file: ReceivedFile,
    new_only: bool = False,
    container: Container | None = None,
    gives_up: Callable[[], bool] | None = None,
) -> SavedUpload:
    """Create or update a form's document from a file on disk; waiting for the index, without connection or file, is
    left to the caller. Raises the errors of `decide`, UnreadableFile, Conflict `resource_taken` or `concurrent_change`,
    InsufficientStorage, and, before reading the file, Unavailable `indexing_backlog` after a wait (`require_room`)."""
    upload = Upload(caller, form, file, new_only, container)
    await let_searches_go_first(runtime.share)
    with runtime.indexer.words_awaited():
        return await _save(runtime, upload, gives_up=gives_up)


async def let_searches_go_first(share: Share) -> None:
    """While searches run, wait until no other document's words are awaited, but for `LATER_SECONDS` at most."""
    until = time.monotonic() + LATER_SECONDS
    # The figures are of all workers, so there is no event to wait for.
    while share.total(Figure.SEARCHES_RUNNING) and share.total(Figure.WORDS_AWAITED):
        if time.monotonic() > until:
            break
        await asyncio.sleep(TURN_SECONDS)


async def _save(runtime: Runtime, upload: Upload, *, gives_up: Callable[[], bool] | None) -> SavedUpload:
    """Judge, then read if needed and commit, up to MOST_COMMITS times; then Conflict `concurrent_change`."""
    contents: Contents | None = None
    outcome, commits = await judge(runtime, upload), 0
    while isinstance(outcome, Decision):
        if commits == MOST_COMMITS:
            message = "Other requests are changing this document. Try again."
            raise Conflict(message, code="concurrent_change")
        if outcome.new_version:
            await require_room(runtime, upload.caller.organization_id, gives_up)
        if _is_unread(outcome, contents):
            contents = await read(runtime, upload.file, reads_pictures=outcome.reads_pictures)
        outcome, commits = await commit(runtime, upload, contents), commits + 1
    return outcome


async def use_stored_name(runtime: Runtime, caller: Caller, form: Form) -> Form:
    """Return the form with the external id in the Unicode form of the existing document; composed (NFC) without."""
    name = form.document_external_id
    if name.isascii():
        return form
    async with runtime.database.transaction(caller.organization_id) as connection:
        stored_names = await find_external_ids(connection, caller.organization_id, [name])
    return form.model_copy(update={"document_external_id": stored_names[name]})


async def judge(runtime: Runtime, upload: Upload) -> Decision | SavedUpload:
    """Decide on an upload in the current state; return the unchanged document if no work is needed."""
    first = Batch()
    state = _ask_state(first, upload, lock=False)
    async with runtime.database.transaction(upload.caller.organization_id, first=first) as connection:
        decision = await decide(connection, upload, state)
        return await describe(connection, decision) if decision.nothing_to_do else decision


async def read(runtime: Runtime, file: ReceivedFile, *, reads_pictures: bool) -> Contents:
    """Read a file's text in a worker process, and put the file into the store; UnreadableFile if it can't be read."""
    recognizes = runtime.settings.ocr
    extracted = await runtime.extractor.extract(
        file.path, file_name=file.name, finds_pictures=reads_pictures and recognizes
    )
    await runtime.files.put(file.path, file.sha256)
    stored = StoredFile(
        sha256=file.sha256,
        size=file.size,
        name=file.name,
        media_type=extracted.media_type,
        not_read=None if extracted.not_read is None else [asdict(part) for part in extracted.not_read],
        file_count=extracted.file_count or None,
        files_done=0 if extracted.file_count else None,
        reads_pictures=reads_pictures,
    )
    return Contents(
        stored, extracted.title, extracted.packed, extracted.scanned if recognizes else (), extracted.pictures
    )


async def commit(runtime: Runtime, upload: Upload, contents: Contents | None) -> SavedUpload | Decision:
    """Judge again under the lock, save, start indexing. Return the decision, unsaved, if it needs other `contents`."""
    first, organization_id = Batch(), upload.caller.organization_id
    state = _ask_state(first, upload, lock=True)
    if contents is not None:
        upload = replace(upload, title=contents.title or "")
        keep_file(first, sha256=contents.file.sha256)
    async with runtime.database.transaction(organization_id, first=first) as connection:
        decision = await decide(connection, upload, state)
        if _is_unread(decision, contents):
            return decision
        if contents is not None:
            await runtime.files.ensure(upload.file.path, contents.file.sha256)
        saved, indexing = await write(runtime, connection, decision, contents if decision.new_contents else None)
    half = Half.MEANING if upload.form.await_vector_store_sync else Half.WORDS
    return replace(saved, waiter=indexing.start(runtime, organization_id, saved.document_id, half=half))


def _ask_state(batch: Batch, upload: Upload, *, lock: bool) -> AskedState:
    caller, organization_id = upload.caller, upload.caller.organization_id
    document_id = document_id_for(organization_id, upload.form.document_external_id)
    acting = ask_acting_for(batch, caller, upload.form.upload_as_user_email, field=ACTING_PART)
    container = None
    if upload.container is not None:
        container = ask_document(batch, organization_id, document_id=upload.container.document_id, lock=lock)
    if lock:
        lock_document(batch, document_id)
    document = ask_document(batch, organization_id, document_id=document_id, lock=lock)
    last_version = ask_version(batch, organization_id, document_id=document_id)
    return AskedState(document_id, acting, container, document, last_version)


def _is_unread(decision: Decision, contents: Contents | None) -> bool:
    is_read = contents is not None and contents.file.reads_pictures == decision.reads_pictures
    return decision.new_contents and not is_read
