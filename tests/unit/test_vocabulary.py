"""Retired words stay out of identifiers, file names and pages; docs/glossary.md has the terms to use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.harness.parsing import parse_python

ROOT = Path(__file__).parents[2]


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
    r".*\b(anew|goes on|[Hh]eld (back|deletions?)|[Jj]udged sets?|[Aa]nswer sets?|[Ww]hoever|[Mm]eanwhile)\b.*",
    re.DOTALL,
)


def _modules() -> Iterator[Path]:
    for folder in ("app", "bench", "cli", "client/carrel", "flows", "sample", "scripts", "service"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def _retired_words(path: Path) -> Iterator[str]:
    tree = parse_python(path.read_text())
    is_shown = path.is_relative_to(ROOT / "app") or path.is_relative_to(ROOT / "cli")
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)} if is_shown else set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
                if name.lstrip("_") in RETIRED_NAMES and not is_property:
                    yield f"{path}:{node.lineno}: {name}"
            case ast.Constant(value=str(text)) if is_shown and node not in docstrings:
                if RETIRED_LABELS.fullmatch(text):
                    yield f"{path}:{node.lineno}: {text}"


def test_names_pages_and_commands_have_the_words_of_the_glossary() -> None:
    assert [word for path in _modules() for word in _retired_words(path)] == []
    assert not {part for path in _modules() for part in path.relative_to(ROOT).with_suffix("").parts} & RETIRED_MODULES


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*: ", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) == len(set(terms)) > 0
