"""Taking files out of a container, some at a time, and the paths of those that can't be."""

from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from service.auth.callers import Caller
from service.domains.documents.catalog.containers.reasons import Reason
from service.domains.documents.stored.contained.queries import LeftOut
from service.domains.documents.stored.containers import Container
from service.domains.documents.stored.queries import StoredDocument
from service.runtime import Runtime
from service.text.reading import ContainedFile, UnreadableFile

# The paths of so many files are read at once where nothing else of them is.
NAMED_AT_ONCE = 1_000


@dataclass
class Run:
    """A run of the job: the container, and who uploads its files.

    `files_left` and `bytes_left` are what the limits of the outermost container leave for this one; `is_too_deep`: it
    is in too many others. `kept` are the documents of the files in the container, whether or not those could be read;
    `read` are the numbers, from 0, of the files that could be, and `left_out` are the others that
    were looked at, by their numbers. `deleted` documents were of files that are gone; `has_changed`: some document is
    not as it was. `is_whole`: every file was looked at.
    """

    runtime: Runtime
    document: StoredDocument
    caller: Caller
    files_left: int
    bytes_left: int
    is_too_deep: bool
    kept: set[UUID] = field(default_factory=set[UUID])
    read: set[int] = field(default_factory=set[int])
    left_out: dict[int, LeftOut] = field(default_factory=dict[int, LeftOut])
    deleted: int = 0
    has_changed: bool = False
    is_whole: bool = False

    @property
    def container(self) -> Container:
        """The container as its files know it."""
        return Container(self.document.document_id, self.document.file.sha256)

    def leave_out(self, number: int, path: str | None, why: Reason) -> None:
        """Note that a file, of a path if that is known, is left out, and why."""
        self.left_out[number] = LeftOut(number, path or None, *why)


async def read_some(run: Run, path: Path, *, start: int, most: int) -> list[ContainedFile]:
    """Read some of the files, or one alone if that fails. Raises UnreadableFile when even that can't be read."""
    largest = run.runtime.settings.max_upload_bytes
    try:
        return await _read(run, path, start=start, most=most, largest=largest)
    except UnreadableFile:
        return await _read(run, path, start=start, most=1, largest=largest)


async def _read(run: Run, path: Path, *, start: int, most: int, largest: int) -> list[ContainedFile]:
    name = run.document.file.name
    return await run.runtime.extractor.read_files(path, file_name=name, start=start, most=most, largest=largest)


async def _name_some(run: Run, path: Path, *, start: int, most: int) -> list[ContainedFile]:
    """Read the paths of some of the files, and nothing else of them; none when even that fails."""
    try:
        return await _read(run, path, start=start, most=most, largest=0)
    except UnreadableFile:
        return []


async def name_one(run: Run, path: Path, number: int, why: UnreadableFile) -> ContainedFile:
    """Return a file that could not be taken out, by its path if that can be read."""
    named = await _name_some(run, path, start=number, most=1)
    return ContainedFile(named[0].path if named else "", None, why.code, why.message)


async def leave_out_rest(run: Run, path: Path, *, start: int, why: Reason) -> None:
    """Note that all files from a number on are left out."""
    done, count = start, run.document.file.file_count or 0
    while done < count and (named := await _name_some(run, path, start=done, most=NAMED_AT_ONCE)):
        for number, file in enumerate(named, start=done):
            run.leave_out(number, file.path, why)
        done += len(named)
    for number in range(done, count):
        run.leave_out(number, None, why)
