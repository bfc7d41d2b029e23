"""SQL of signs: fields of a query as conditions on documents, and phrases as regular expressions."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from service.auth.callers import Caller
from service.domains.search.syntax.parsing import FieldClause, FieldName, is_phrase
from service.index.forms import fold_marks
from service.index.tokenization import has_unspaced, read_simplified
from service.permissions.queries import readable_by_parameters, within_parameters
from service.platform.sql import matches
from service.schema.catalog import collections, document_versions, documents
from service.schema.identity import principals, resources
from service.schema.indexing import space_documents

FieldShape = tuple[FieldName, bool, bool]
"""A field of a statement without value, whether it excludes, and whether the field before will do instead."""

ORGANIZATION: sa.ColumnElement[UUID] = sa.bindparam("organization_id", type_=sa.Uuid())

_ENDINGS = {
    name: endings.split()
    for names, endings in tomllib.loads(Path(__file__).with_name("endings.toml").read_text("utf-8")).items()
    for name in names.split()
}

_LETTER = re.compile(r"[^\W\d_]|[0-9]")
_LETTERS = r"\w*"  # any letters, for an asterisk
_HYPHENS, _APOSTROPHES = "-\u2010\u2011\u2013", "'\u2019`\u00b4"
_BETWEEN = rf"[{_HYPHENS}\u2014\u2022\u2026\s,:;()/\"\u201c\u201d{_APOSTROPHES}]+"  # signs that are not spoken
_LIGATURES = {
    "ffi": "\ufb03|\ufb00i|f\ufb01",
    "ffl": "\ufb04|\ufb00l|f\ufb02",
    "ff": "\ufb00",
    "fi": "\ufb01",
    "fl": "\ufb02",
}
_LIGATURE = re.compile("(ff[il]?|f[il])", re.IGNORECASE)
_MARKED = defaultdict[str, str](str)
for _each in map(chr, (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))):
    _MARKED[fold_marks(_each.lower())] += _each


def pattern_of(phrase: str) -> str:
    """Return PostgreSQL's pattern for a phrase: whole words with signs between that are not spoken, any kind of
    apostrophe, any marks on the letters typed without, and any letters for an asterisk."""
    if has_unspaced(phrase):
        return r"\s*".join("".join(map(_pattern_of_unspaced, word)) for word in phrase.split())
    begin, end = (r"\m" if _LETTER.match(phrase[:1]) else ""), (r"\M" if _LETTER.match(phrase[-1:]) else "")
    # At the ends of a phrase, other letters need no pattern, which would take time.
    words = _BETWEEN.join(map(_pattern_of_word, phrase.split())).removeprefix(_LETTERS).removesuffix(_LETTERS)
    return begin + words + end


def _pattern_of_word(word: str) -> str:
    if "*" in word and any(map(str.isalnum, word)):
        return _LETTERS.join(map(_pattern_of_word, re.split(r"\*+", word)))
    pieces = [
        ("".join(map(_pattern_of_character, each)), _LIGATURES.get(each.lower())) for each in _LIGATURE.split(word)
    ]
    return "".join(f"(?:{pattern}|{ligature})" if ligature else pattern for pattern, ligature in pieces)


def _pattern_of_unspaced(character: str) -> str:
    if character == "*":
        return _LETTERS
    usual = character.translate(read_simplified())
    return f"[{usual}{others}]" if (others := _traditional().get(usual)) else re.sub(r"([^\w\s])", r"\\\1", character)


@cache
def _traditional() -> Mapping[str, str]:
    found = defaultdict[str, str](str)
    for old, new in read_simplified().items():
        found[new] += chr(old)
    return dict(found)


def _pattern_of_character(character: str) -> str:
    if character.isascii() and character.isalpha():
        return f"[{character}{_MARKED[character.lower()]}]"
    kinds = next((each for each in (_HYPHENS, _APOSTROPHES) if character in each), "")
    return f"[{kinds}\\s]" if kinds == _HYPHENS else f"[{kinds}]" if kinds else re.sub(r"([^\w\s])", r"\\\1", character)


def any_pattern_of(texts: Sequence[str]) -> str | None:
    """Return the regular expression of all phrases among these texts of clauses; None without a phrase."""
    return "|".join(pattern_of(each[1:]) for each in texts if is_phrase(each)) or None


def shape_of_fields(fields: Sequence[FieldClause]) -> tuple[FieldShape, ...]:
    return tuple((each.name, each.excludes, each.is_either) for each in fields)


def field_parameters(fields: Sequence[FieldClause], caller: Caller) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, each in enumerate(fields):
        value = each.value.lower()
        found[f"field_{number}"] = pattern_of(each.value)
        found[f"text_{number}"] = value.strip("/") if each.name is FieldName.IN else value
        kinds = value.split(",")  # "type:pdf,docx"
        found[f"endings_{number}"] = [end for kind in kinds for end in _ENDINGS.get(kind, (kind.removeprefix("."),))]
        found[f"time_{number}"] = each.day and datetime.combine(each.day, time(), UTC)
        found[f"owners_{number}"] = [caller.principal_id] if value == "me" else []
    return found


def select_with_fields(fields: Sequence[FieldShape], *, is_narrowed: bool) -> sa.Select[UUID]:
    kept = list[sa.ColumnElement[bool]]()
    for number, (name, excludes, is_either) in enumerate(fields):
        fits = _is_in(number, is_narrowed=is_narrowed) if name is FieldName.IN else _CONDITIONS[name](number)
        before = [kept.pop()] if is_either and kept else []
        kept.append(sa.not_(fits) if excludes else sa.or_(*before, fits))
    return sa.select(documents.c.document_id).where(documents.c.organization_id == ORGANIZATION, *kept)


@lru_cache(64)
def any_with_field(field: FieldShape, *, is_narrowed: bool) -> sa.Select[bool]:
    fitting = select_with_fields((field,), is_narrowed=is_narrowed)
    readable = matches(resources, ORGANIZATION), is_readable(is_narrowed=is_narrowed)
    found = sa.select(resources.c.object_id).where(*readable, resources.c.object_id.in_(fitting))
    return sa.select(found.exists().label("is_met"))


def is_readable(*, is_narrowed: bool) -> sa.ColumnElement[bool]:
    """Build the condition for a resource that the reader may read, inside the caller's collections if narrowed."""
    readable = resources.c.access_class.in_(readable_by_parameters())
    return sa.and_(readable, resources.c.object_id.in_(within_parameters())) if is_narrowed else readable


def is_visible_collection(*, is_narrowed: bool) -> sa.ColumnElement[bool]:
    narrowed_to: Any = sa.bindparam("narrowed_to", type_=sa.ARRAY(sa.Uuid()))
    visible = sa.select(resources.c.object_id).where(matches(resources, ORGANIZATION), is_readable(is_narrowed=False))
    return sa.and_(
        matches(collections, ORGANIZATION),
        collections.c.collection_id.in_(visible),
        *((collections.c.collection_id == sa.any_(narrowed_to),) if is_narrowed else ()),
    )


def _text(name: str, number: int) -> sa.ColumnElement[str]:
    return sa.bindparam(f"{name}_{number}", type_=sa.Text())


def _matches(column: sa.ColumnElement[Any], number: int) -> sa.ColumnElement[bool]:
    return column.op("~*", is_comparison=True)(_text("field", number))


def name_matches(pattern: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Match a pattern against a document's name, as written and with spaces instead of underscores."""
    apart = sa.func.translate(documents.c.name, "_", " ")
    return sa.or_(*(name.op("~*", is_comparison=True)(pattern) for name in (documents.c.name, apart)))


def _has_type(number: int) -> sa.ColumnElement[bool]:
    """Compare the resource's type, the ending of the file's name, and its media type."""
    value = _text("text", number)
    endings: Any = sa.bindparam(f"endings_{number}", type_=sa.ARRAY(sa.Text()))
    media_type = sa.func.lower(document_versions.c.media_type)
    of_file = sa.exists().where(
        is_newest_version(),
        sa.or_(
            ending_of_file() == sa.any_(endings), media_type == value, sa.func.split_part(media_type, "/", 1) == value
        ),
    )
    of_resource = sa.exists().where(
        matches(resources, ORGANIZATION, object_id=documents.c.document_id),
        sa.func.lower(resources.c.resource_type) == value,
    )
    return sa.or_(of_file, of_resource)


def _has_owner(number: int) -> sa.ColumnElement[bool]:
    """Compare the owner's name and address; `me` is the caller."""
    own: Any = sa.bindparam(f"owners_{number}", type_=sa.ARRAY(sa.Uuid()))
    value = _text("text", number)
    named = sa.select(principals.c.principal_id).where(
        principals.c.organization_id == ORGANIZATION,
        sa.or_(
            principals.c.email == value,
            sa.func.split_part(principals.c.email, "@", 1) == value,
            _matches(principals.c.name, number),
        ),
    )
    return sa.or_(documents.c.owner_id == sa.any_(own), documents.c.owner_id.in_(named))


def _is_in(number: int, *, is_narrowed: bool) -> sa.ColumnElement[bool]:
    """Compare the names of collections visible to the reader, or former names that no such collection has now, and
    the folders of the document's path."""
    visible = is_visible_collection(is_narrowed=is_narrowed)
    former: Any = sa.func.unnest(collections.c.former_names).column_valued("former_name")
    is_named = sa.func.lower(collections.c.name) == _text("text", number)
    now_named = sa.select(collections.c.space_id).where(visible, is_named).correlate(None)
    was_named = sa.exists(sa.select(former).where(_matches(former, number))) & ~now_named.exists()
    inside = (
        sa.select(space_documents.c.document_id)
        .join(collections, collections.c.space_id == space_documents.c.space_id)
        .where(matches(space_documents, ORGANIZATION), visible)
        .where(sa.or_(_matches(collections.c.name, number), was_named))
    )
    folder = sa.func.lower(documents.c.external_id)
    of_folder = sa.func.strpos("/" + folder, "/" + _text("text", number) + "/") > 0
    return sa.or_(documents.c.document_id.in_(inside), of_folder)


def time_of_change() -> sa.ColumnElement[datetime]:
    """Build the time of a document's last change by the source, or else by Carrel."""
    return sa.func.coalesce(documents.c.source_updated_at, documents.c.updated_at)


def is_newest_version() -> sa.ColumnElement[bool]:
    own = {"document_id": documents.c.document_id, "version": documents.c.version}
    return matches(document_versions, ORGANIZATION, **own)


def ending_of_file() -> sa.ColumnElement[str]:
    return sa.func.lower(sa.func.substring(document_versions.c.file_name, r"\.([^.]+)$"))


def _time(number: int) -> sa.ColumnElement[datetime]:
    return sa.bindparam(f"time_{number}", type_=sa.DateTime(timezone=True))


_CONDITIONS: Mapping[FieldName, Callable[[int], sa.ColumnElement[bool]]] = {
    FieldName.TITLE: lambda number: name_matches(_text("field", number)),
    FieldName.TYPE: _has_type,
    FieldName.OWNER: _has_owner,
    FieldName.AFTER: lambda number: _time(number) <= time_of_change(),
    FieldName.BEFORE: lambda number: _time(number) > time_of_change(),
}
