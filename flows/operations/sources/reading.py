"""Sources of documents, read without the service: a folder, glob, manifest, or prefix of an object store."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path, PurePosixPath
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from carrel.wire.file_names import forms_of
from flows.errors import SourceError
from flows.operations.sources import documents
from flows.operations.sources.exclusions import HIDDEN, LEFTOVER, SECRETS, FileSelection, default_reason
from flows.operations.sources.manifest import MANIFEST_SUFFIXES, read_manifest
from flows.operations.sources.objects import SCHEMES, WILDCARDS, is_object_url, list_objects, object_identity
from flows.operations.sources.selection import is_selection


def read_source(source: str, *, defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    """Yield the items of `source` (folder, file, glob, .csv / .jsonl manifest, object store's URL) in a stable order.
    Without a manifest, a document's external id is its path relative to the source's root in POSIX form, wherever the
    folder is mounted. Raises SourceError before the first item when the whole source can't be read; listing an object
    store can also fail later. Files excluded by the selection of `defaults` are Skipped, with the reason."""
    return _select(_read(source, defaults), select_files(source, defaults.files))


def select_files(source: str, files: FileSelection) -> FileSelection:
    """Extend a selection by the files that the source names: all files of a manifest, or the file in its path."""
    if is_object_url(source):
        return files
    path = local_path(source)
    if path.is_file() and path.suffix.lower() in MANIFEST_SUFFIXES:
        return replace(files, include=("*",))
    return files if path.is_dir() else replace(files, named=path.name)


def _read(source: str, defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    if is_object_url(source):
        return list_objects(source, defaults=defaults)
    path = local_path(source)
    if path.is_dir():
        root = str(path.resolve())
        return _walk(root, root, defaults)
    if path.is_file():
        if path.suffix.lower() in MANIFEST_SUFFIXES:
            return read_manifest(path, defaults=defaults)
        folder = path.parent.resolve()
        return _matches(folder, [folder / path.name], defaults)
    if WILDCARDS & set(source):
        return _find_matches(path, defaults)
    msg = f"{source} does not exist. Give a folder, a file, a glob pattern, or a manifest ending in .csv or .jsonl"
    raise SourceError(msg)


def check_source(source: str) -> None:
    """Raise SourceError when a source of files can't be read now; nothing is listed."""
    if is_object_url(source) or is_selection(source):
        return
    try:
        path = local_path(source)
        root = path if path.exists() or not WILDCARDS & set(source) else _existing(_split_pattern(path)[0])
        is_folder = root.is_dir()
        if path.is_file() or not root.exists():
            next(_read(source, documents.Defaults()), None)
    except OSError as exc:
        raise SourceError(f"{source} cannot be read: {exc.strerror or exc}") from exc
    if not os.access(root, os.R_OK | os.X_OK if is_folder else os.R_OK):
        raise SourceError(f"{root} cannot be read: the user of the flows has no access")


def _select(items: Iterator[documents.SourceItem], files: FileSelection) -> Iterator[documents.SourceItem]:
    """Yield the items, with excluded documents as Skipped; of hidden files, name secrets and leftovers as such."""
    for item in items:
        if isinstance(item, documents.SourceDocument):
            reason = files.reason_to_exclude(item.external_id, real_name=item.path.rpartition(os.sep)[2])
            yield documents.Skipped(item.place, reason) if reason else item
        elif isinstance(item, documents.Skipped) and item.reason == HIDDEN:
            reason = default_reason(item.place)
            yield documents.Skipped(item.place, reason) if reason in {SECRETS, LEFTOVER} else item
        else:
            yield item


def is_folder(source: str) -> bool:
    return not is_object_url(source) and not is_selection(source) and local_path(source).is_dir()


def source_identity(source: str) -> str:
    """Return the source's name in its normal form, the same for each spelling. Raises SourceError."""
    if is_object_url(source):
        return object_identity(source)
    if is_selection(source):
        return source
    path = local_path(source)
    if path.exists():
        is_single = path.is_file() and path.suffix.lower() not in MANIFEST_SUFFIXES
        identity = str(path.parent.resolve() / path.name if is_single else path.resolve())
    else:
        root, pattern = _split_pattern(path)
        identity = f"{root.resolve()}::{pattern}"
    if documents.is_undecodable(identity):
        msg = f"The name {_readable(identity)} is not valid UTF-8. Rename the folder, or use another path to it."
        raise SourceError(msg)
    return identity


def local_path(source: str) -> Path:
    """Return the path of a source that is a path or a file: URL. Raises SourceError for any other URL."""
    scheme, colon, _ = source.partition("://")
    if not colon:
        try:
            return _existing(Path(source).expanduser())
        except RuntimeError as exc:
            msg = f"{source} begins with ~, and that user has no home folder. Give the complete path"
            raise SourceError(msg) from exc
    parts = urlsplit(source)
    if scheme.lower() != "file" or parts.netloc not in {"", "localhost"} or not parts.path:
        kinds = ", ".join(sorted(f"{scheme}://" for scheme in SCHEMES))
        raise SourceError(f"{scheme}:// is not supported. Give a path, a file:///path, or an object store's {kinds}")
    return Path(unquote(parts.path))


def _existing(path: Path) -> Path:
    """Return the path in the Unicode form that exists on the disk; unchanged if none does."""
    return next((found for form in forms_of(str(path)) if (found := Path(form)).exists()), path)


def _split_pattern(path: Path) -> tuple[Path, str]:
    """Return the folders before the first part with a wildcard, and the rest as a pattern."""
    fixed = list(takewhile(lambda part: not WILDCARDS & set(part), path.parts))
    return Path(*fixed), str(PurePosixPath(*path.parts[len(fixed) :]))


def _walk(folder: str, root: str, defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as exc:
        yield documents.Problem(_relative(folder, root), "folder_unreadable", f"The folder cannot be listed: {exc}")
        return
    for entry in ordered:
        place = _relative(entry.path, root)
        if documents.is_undecodable(place):
            yield _name_problem(place)
        elif entry.name.startswith(".") and not defaults.hidden:
            yield documents.Skipped(place=place, reason=HIDDEN)
        elif entry.is_symlink():
            yield _link(entry.path, root, defaults)
        elif entry.is_dir():
            yield from _walk(entry.path, root, defaults)
        elif entry.is_file():
            yield documents.document_at(entry.path, place, defaults)
        else:
            yield documents.Skipped(place=place, reason="not a regular file")


def _link(path: str, root: str, defaults: documents.Defaults) -> documents.SourceItem:
    place = _relative(path, root)
    target = os.path.realpath(path)
    if not is_inside(target, root):
        message = "The link leads out of the source's folder, so it is skipped. Copy the file into the folder."
        return documents.Problem(place, code="link_escapes", message=message, external_id=place)
    if documents.is_undecodable(target):
        message = "The link leads to a name that is not valid UTF-8. Rename its target."
        return documents.Problem(place, code="name_undecodable", message=message, external_id=place)
    return _follow_link(target, place, defaults)


def _follow_link(target: str, place: str, defaults: documents.Defaults) -> documents.SourceItem:
    try:
        kind = Path(target).stat().st_mode
    except FileNotFoundError:
        return documents.Problem(place, code="link_broken", message="The link has no target.", external_id=place)
    except OSError as exc:
        message = f"The link cannot be followed: {exc.strerror or exc}"
        return documents.Problem(place, code="file_unreadable", message=message, external_id=place)
    if stat.S_ISDIR(kind):
        return documents.Skipped(place=place, reason="link to a folder")
    if not stat.S_ISREG(kind):
        return documents.Skipped(place=place, reason="not a regular file")
    return documents.document_at(target, place, defaults)


def _find_matches(pattern: Path, defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    base, rest = _split_pattern(pattern)
    base = _existing(base)
    if not base.is_dir():
        raise SourceError(f"{base} is not a folder, so the pattern {pattern} cannot match anything")
    root = base.resolve()
    try:
        found = sorted({path for form in forms_of(rest) for path in root.glob(form)})
    except (ValueError, NotImplementedError) as exc:
        raise SourceError(f"{pattern} is not a valid pattern: {exc}") from exc
    return chain(_matches(root, found, defaults), _find_unreadable_folders(root, rest, defaults))


def _find_unreadable_folders(root: Path, pattern: str, defaults: documents.Defaults) -> Iterator[documents.Problem]:
    told: set[str] = set()
    parts = PurePosixPath(pattern).parts
    for end, part in enumerate(parts):
        if not WILDCARDS & set(part):
            continue
        for folder in root.glob("/".join(parts[:end])) if end else (root,):
            place = _relative(str(folder), str(root))
            if place in told or not folder.is_dir() or (_is_hidden(place) and not defaults.hidden):
                continue
            try:
                os.scandir(folder).close()
            except OSError as exc:
                told.add(place)
                yield documents.Problem(_readable(place), "folder_unreadable", f"The folder cannot be listed: {exc}")


def _matches(root: Path, found: list[Path], defaults: documents.Defaults) -> Iterator[documents.SourceItem]:
    for path in found:
        place = _relative(str(path), str(root))
        if documents.is_undecodable(place):
            yield _name_problem(place)
        elif not defaults.hidden and _is_hidden(place):
            yield documents.Skipped(place=place, reason=HIDDEN)
        elif os.path.islink(path) or not is_inside(os.path.realpath(path), str(root)):  # noqa: PTH114 - never raises
            yield _link(str(path), str(root), defaults)
        elif os.path.isfile(path):  # noqa: PTH113 - never raises
            yield documents.document_at(str(path), place, defaults)


def _is_hidden(place: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(place).parts)


def _name_problem(place: str) -> documents.Problem:
    message = "The name is not valid UTF-8, so nothing here was read. Rename it."
    return documents.Problem(place=_readable(place), code="name_undecodable", message=message)


def _readable(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()


def is_inside(path: str, root: str) -> bool:
    return path.startswith(root if root.endswith(os.sep) else root + os.sep)


def _relative(path: str, root: str) -> str:
    """Return a path below the root in composed Unicode (NFC), in any form on disk; a dot for the root."""
    return normalize("NFC", path[len(root) :].lstrip(os.sep) or ".")
