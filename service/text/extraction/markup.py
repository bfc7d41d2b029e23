# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# lxml has no types of its own.
"""Parsing of untrusted XML: external resources are never read, and entities expand within libxml2's limits."""

import re
from html import unescape
from typing import Any

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from service.text.extraction.failures import damaged_file, too_complex

# libxml2's XML_ERR_ENTITY_LOOP and XML_ERR_RESOURCE_LIMIT, and its errors for entities defined in external files.
_LIMITS = frozenset({89, 114})
_UNDEFINED = frozenset({26, 27})
# White space before the declaration, which parsers refuse, after an optional byte order mark.
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?\s+")


def parse_markup(data: bytes) -> Any:
    """Return the root of XML, with entities replaced. Raises Unreadable if damaged, too deep or too expanded."""
    try:
        return _parse(_BEFORE.sub(b"", data, count=1), "internal")
    except etree.XMLSyntaxError as error:
        if error.code in _LIMITS:
            raise too_complex("The XML is nested too deeply, or one of its entities or texts is too long.") from error
        raise damaged_file("XML", error) from error


def local_name(element: Any) -> str:
    """Return an element's name without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def character_of(entity: str) -> str:
    """Return the character of an entity such as `&nbsp;`; a space for an entity unknown in HTML."""
    character = unescape(entity)
    return " " if character == entity else character


def _parse(data: bytes, resolve: Any) -> Any:
    """Parse XML, without comments; entities that the data does not define stay unresolved."""
    try:
        # Comments and instructions aren't text.
        return etree.fromstring(
            data,
            etree.XMLParser(
                resolve_entities=resolve, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
            ),
        )
    except etree.XMLSyntaxError as error:
        if resolve and error.code in _UNDEFINED:
            return _parse(data, resolve=False)
        raise
