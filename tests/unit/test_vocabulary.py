"""Retired words stay out of identifiers, file names and pages; docs/glossary.md has the terms to use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.parsing import parse_python

ROOT = Path(__file__).parents[2]

FOLDERS = ("app", "bench", "cli", "client/carrel", "flows", "sample", "scripts", "service")

RETIRED_NAMES = frozenset({
    "allowed", "among", "answered", "asked", "caller_again", "counted", "Deed", "DEEDS", "Desk", "entering",
    "explained", "finding", "found", "Gate", "gate", "get_holder", "given", "giving", "goes_on",
    "held", "held_back", "Holder", "keep_doing", "keep_forgetting", "kept", "listed", "MeanwhileChangedError", "named",
    "narrowed", "Patience", "Place", "Question", "received", "seen", "settle", "shown", "spare_changed", "stored",
    "told", "told_apart", "Unit", "want_everywhere", "wanted", "wanted_version", "went_on", "written",
})  # fmt: skip
"""Names of functions and classes, with or without an underscore in front; a property may be an adjective."""

RETIRED_MODULES = frozenset({
    "deeds", "finding", "gate", "parts", "patience", "shelf", "vanished", "vanishing", "vocabulary", "words",
})  # fmt: skip

RETIRED_LABELS = re.compile(
    r"Made|Exactly|You are|Take out( …)?|Look( again)?|Fits .*|Words and meaning|Words|In|By|As|Over|To what|"
    r"Who that is|It ends|Granted|Not loaded|Set aside|Put back|What it is|Who may (use|read) it|Try it|"
    r"Stop watching|None goes on|Everything is fine|Index(ing)? again|Mint.*|"
    r"The account that loads|Give it to|Take it from|"
    r".*\b(anew|goes on|held back|[Jj]udged sets?|[Aa]nswer sets?|[Ww]hoever|[Mm]eanwhile)\b.*",
    re.DOTALL,
)


def _modules() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def _retired_names(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name}"
        for node in ast.walk(parse_python(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name.lstrip("_") in RETIRED_NAMES
        and not any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
    ]


def _retired_labels(path: str, source: str) -> list[str]:
    tree = parse_python(source)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"{path}:{node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
        if RETIRED_LABELS.fullmatch(node.value)
    ]


def test_no_function_or_class_has_a_retired_name() -> None:
    """Functions and classes have the terms of the glossary."""
    found = [name for path in _modules() for name in _retired_names(str(path.relative_to(ROOT)), path.read_text())]
    assert found == []


def test_no_module_has_a_retired_name() -> None:
    """Modules and packages have the terms of the glossary."""
    named = {part for path in _modules() for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not named & RETIRED_MODULES


def test_no_page_or_command_has_a_retired_label() -> None:
    """Buttons, columns and sentences of pages and commands have the words of the glossary."""
    pages = [path for path in _modules() if path.relative_to(ROOT).parts[0] in {"app", "cli"}]
    assert [text for path in pages for text in _retired_labels(str(path.relative_to(ROOT)), path.read_text())] == []


@pytest.mark.parametrize("source", ["def told():\n    pass", "class _Gate:\n    pass", "async def goes_on(): ..."])
def test_a_retired_name_is_found(source: str) -> None:
    """Functions and classes are looked at, private ones too."""
    assert _retired_names("app/page.py", source)


@pytest.mark.parametrize(
    "label",
    ["Made", "Look again", "Take out …", "Fits {percent}", "A run goes on.", "Mint a token", "In", "Whoever has it."],
)
def test_a_retired_label_is_found(label: str) -> None:
    """A label is found wherever a page has it as a text of its own."""
    assert _retired_labels("app/page.py", f"show({label!r})")


def test_the_glossary_is_in_order() -> None:
    """Terms are ordered by alphabet, each in a row of its own."""
    rows = [line.split("|")[1].strip() for line in (ROOT / "docs/glossary.md").read_text().splitlines()[6:]]
    assert rows == sorted(rows, key=str.lower)
    assert len(rows) == len(set(rows)) > 0
