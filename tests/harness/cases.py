"""Test data in tests/data: tables of cases, documents and long SQL statements."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data"


def cases(name: str):
    return json.loads((FOLDER / "cases" / f"{name}.json").read_text("utf-8"))


def bytes_of_case(parts: list[str | tuple[str, int]]) -> bytes:
    """Bytes of a case in Latin-1; a pair is a text and how often it stands there."""
    return b"".join((part if isinstance(part, str) else part[0] * part[1]).encode("latin-1") for part in parts)


def document(name: str) -> bytes:
    return (FOLDER / "documents" / name).read_bytes()


def statement(name: str) -> str:
    return (FOLDER / "statements" / f"{name}.sql").read_text()


def script(name: str) -> str:
    return (FOLDER / "scripts" / name).read_text("utf-8")
