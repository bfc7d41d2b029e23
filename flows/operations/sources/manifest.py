"""Manifests: a CSV with a header, or JSON Lines, naming each file with its properties.

Members: `path` (required, relative to the manifest's folder), `externalId`, `name`, `metadata` (an object; in a CSV its
JSON, or a column `metadata.<key>` each), `allowedUsers`, `allowedGroups` (lists; in a CSV separated by commas or
semicolons; `-` is nobody), `internalPublic`, `collection`, `externalUrl`. A CSV's empty cell is a member left out. A
bad row becomes a Problem with its line number; reading continues with the next row."""

import csv
import json
import os
import posixpath
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, cast
from unicodedata import normalize

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from carrel.spreadsheets import flag_of
from carrel.wire.file_names import forms_of
from flows.errors import SourceError
from flows.operations.formatting import json_fault
from flows.operations.sources.documents import Access, Defaults, Problem, SourceDocument, SourceItem, is_undecodable

MANIFEST_SUFFIXES = frozenset({".csv", ".jsonl", ".ndjson"})
_METADATA_PREFIX = "metadata."
_READERS = frozenset({"allowed_users", "allowed_groups", "internal_public"})
NO_READERS = "-"
_CELL_CHARACTERS = 1_000_000
_SAVE = 'In Excel, save the file as "CSV UTF-8". In other programs, choose the encoding UTF-8.'
_NOT_UTF8 = f"The row is not valid UTF-8. {_SAVE}"


def _parse_list(value: object) -> object:
    """Return a cell's text as a list (NO_READERS: empty), or a JSON value. Raises ValueError for wrong JSON."""
    if not isinstance(value, str):
        return value
    if value.strip() == NO_READERS:
        return []
    if value.lstrip().startswith("["):
        return _json(value)
    return [entry.strip() for entry in value.replace(";", ",").split(",") if entry.strip()]


def _parse_flag(value: object) -> object:
    if not isinstance(value, str):
        return value
    flag = False if value.strip() == NO_READERS else flag_of(value)
    return value if flag is None else flag


def _object(value: object) -> object:
    return _json(value) if isinstance(value, str) else value


def _json(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"is not valid JSON: {json_fault(exc)}") from exc


def _text(value: object) -> object:
    """Return a JSON number or boolean as text, because metadata is text; other values stay as they are."""
    return json.dumps(value) if isinstance(value, int | float) else value


_Line = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
_Listed = Annotated[tuple[_Line, ...], BeforeValidator(_parse_list)]


class ManifestRow(BaseModel):
    """A row as written. Raises ValidationError for unknown members."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    path: _Line
    external_id: _Line | None = None
    name: _Line | None = None
    metadata: Annotated[dict[_Line, Annotated[str, BeforeValidator(_text)]], BeforeValidator(_object)] = {}
    allowed_users: _Listed | None = None
    allowed_groups: _Listed | None = None
    internal_public: Annotated[bool | None, BeforeValidator(_parse_flag)] = None
    collection: _Line | None = None
    external_url: _Line | None = None


_Row = tuple[int, Mapping[str, object] | str]  # (line number, the row's members or its error)


def read_manifest(path: Path, *, defaults: Defaults) -> Iterator[SourceItem]:
    """Yield the manifest's documents and problems in its order. Raises SourceError for a wrong header."""
    root = str(path.parent.resolve())
    for line, members in _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path):
        place = f"line {line}"
        if isinstance(members, str):
            yield Problem(place, code="row_invalid", message=members)
            continue
        try:
            row = ManifestRow.model_validate(members)
        except ValidationError as exc:
            named = members.get("externalId") or members.get("path")
            external_id = named if isinstance(named, str) else None
            yield Problem(place, code="row_invalid", message=describe_errors(exc), external_id=external_id)
            continue
        yield _item(row, place=place, root=root, defaults=defaults)


def _item(row: ManifestRow, *, place: str, root: str, defaults: Defaults) -> SourceItem:
    written = _find(root, row.path)
    relative = normalize("NFC", posixpath.normpath(os.path.relpath(written, root).replace(os.sep, "/")))
    external_id = normalize("NFC", row.external_id or relative)
    if (problem := _path_problem(written, root=root)) is not None:
        code, message = problem
        return Problem(place, code, f"{row.path}: {message}", external_id)
    access = Access.of(row.allowed_users, row.allowed_groups, internal_public=row.internal_public)
    return SourceDocument(
        path=str(written.resolve()),
        external_id=external_id,
        file_name=posixpath.basename(relative),
        name=row.name or posixpath.basename(relative),
        access=access or defaults.access,
        metadata={**defaults.metadata, **row.metadata},
        collection=row.collection or defaults.collection,
        read_pictures=defaults.read_pictures,
        external_url=row.external_url,
        place=place,
        # An empty cell in a readers column is in the row as None.
        keeps_readers=access is None and defaults.access is None and not _READERS.isdisjoint(row.model_fields_set),
    )


def _find(root: str, path: str) -> Path:
    """Return the file named by a row, also in another Unicode form, or with backslashes as slashes."""
    forms = [Path(root, form) for name in (path, path.replace("\\", "/")) for form in forms_of(name)]
    with suppress(OSError):  # the name is too long
        return next((found for found in forms if found.exists()), forms[0])
    return forms[0]


def _path_problem(path: Path, *, root: str) -> tuple[str, str] | None:
    try:
        real = path.resolve()
        if not real.is_relative_to(root):
            return "path_escapes", "leads out of the manifest's folder. Keep the files in or below this folder."
        if not real.is_file():
            return "file_missing", "the file does not exist."
        if is_undecodable(str(real)):
            return "name_undecodable", "leads to a name that is not valid UTF-8. Rename its target."
    except (OSError, RuntimeError) as exc:
        return "file_unreadable", str(exc)
    return None


@contextmanager
def _open_text(path: Path) -> Generator[IO[str]]:
    """Open a manifest in UTF-8 or UTF-16; other bytes become lone surrogates and spoil only a row. Raises SourceError,
    with advice, where most rows are in another encoding or reading raises UnicodeError."""
    with path.open("rb") as file:
        start = file.read(200)
    # Without a byte order mark: in UTF-16, nearly every second byte is 0.
    wide = ("utf-16-be", "utf-16-le")[start[::2].count(0) < start[1::2].count(0)]
    wide = "utf-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else wide
    encoding = wide if wide == "utf-16" or start.count(0) > len(start) // 4 else "utf-8-sig"
    try:
        with path.open(encoding=encoding, errors="surrogateescape", newline="") as file:
            lines = Counter(is_undecodable(line) for line in file if line.strip())
        is_other = lines[True] > lines[False] - (path.suffix.lower() == ".csv")  # a header is not a row
        with path.open(encoding=encoding, errors="strict" if is_other else "surrogateescape", newline="") as file:
            yield file
    except UnicodeError as exc:
        raise SourceError(f"{path} is not valid UTF-8. {_SAVE}") from exc


def _csv_rows(path: Path) -> Iterator[_Row]:
    csv.field_size_limit(_CELL_CHARACTERS)
    with _open_text(path) as file:
        first = file.readline()
        told = re.fullmatch('"?sep=(.)"?', first.strip(" \r\n"), re.IGNORECASE)
        if told is None:
            file.seek(0)
        skipped, delimiter = (1, told[1]) if told else (0, max(",;\t", key=first.count))
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header = _header(path, reader)
        while True:
            line = skipped + reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as exc:
                yield line, f"The row is not well-formed CSV: {exc}"
                continue
            if any(cell.strip() for cell in cells):
                yield line, _row(cells, header)


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, list[str]())]
    except csv.Error as exc:
        raise SourceError(f"{path} has no readable header: {exc}") from exc
    if is_undecodable("".join(header)):
        raise UnicodeError
    known = {field.alias or name for name, field in ManifestRow.model_fields.items()}
    unknown = [name for name in header if name not in known and not name.startswith(_METADATA_PREFIX)]
    if "path" not in header or unknown or len(set(header)) < len(header):
        raise SourceError(
            f"{path} needs a header with a column `path`, without repeated columns. Other columns can be "
            f"{', '.join(sorted(known))} and metadata.<key>. Unknown here: {', '.join(unknown) or 'none'}"
        )
    return header


def _row(cells: list[str], header: list[str]) -> Mapping[str, object] | str:
    if len(cells) != len(header):
        return f"The row has {len(cells)} cells, but the header has {len(header)}."
    if is_undecodable("".join(cells)):
        return _NOT_UTF8
    members: dict[str, object] = {to_camel(name): None for name in _READERS if to_camel(name) in header}
    metadata: dict[str, str] = {}
    for name, cell in zip(header, cells, strict=True):
        if cell and name.startswith(_METADATA_PREFIX):
            metadata[name.removeprefix(_METADATA_PREFIX)] = cell
        elif cell.strip():
            members[name] = cell
    if metadata and "metadata" in members:
        return "The row fills both `metadata` and `metadata.<key>` columns. Use only one kind."
    return {**members, "metadata": metadata} if metadata else members


def _json_rows(path: Path) -> Iterator[_Row]:
    with _open_text(path) as file:
        for line, raw in enumerate(file, start=1):
            if raw.strip():
                yield line, _json_row(raw)


def _json_row(raw: str) -> Mapping[str, object] | str:
    if is_undecodable(raw):
        return _NOT_UTF8
    try:
        value: object = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as exc:
        return f"The line is not a JSON object: {json_fault(exc, in_line=True)}"
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else "The line is not a JSON object."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member appears twice")
    return members


def describe_errors(exc: ValidationError) -> str:
    """Return the error of each member, without the value."""
    errors = exc.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in errors)
