"""Retired names stay out of the service: its definitions use the field's terms."""

import ast
from collections.abc import Iterator
from pathlib import Path

from service import __file__ as service_file

FOLDER = Path(service_file).parent

RETIRED = frozenset(
    [
        "Place",
        "Question",
        "Unit",
        "Desk",
        "Patience",
        "Deed",
        "Holder",
        "MeanwhileChangedError",
        "settle",
        "gate",
        "told_apart",
        "finding",
        "given",
        "giving",
        "among",
        "narrowed",
        "entering",
        "want_everywhere",
        "wanted_version",
        "keep_forgetting",
        "forget",
        "forgetting",
        "give_up",
        "holder_named",
        "get_holder",
        "caller_again",
        "goes_on",
        "went_on",
        "_again",
        "_allowed",
        "_answered",
        "_asked",
        "_found",
        "_given",
        "_held",
        "_kept",
        "_known",
        "_listed",
        "_named",
        "_own",
        "_seen",
        "_shown",
        "_stored",
        "_told",
        "_wanted",
        "_written",
        "told",
        "shown",
        "received",
        "written",
    ]
)


def definitions(path: Path) -> Iterator[str]:
    """Yield the module's name, and the names of its functions and classes."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_no_definition_has_a_retired_name() -> None:
    """No module, function or class of the service has a name that was retired for a standard term."""
    found = {
        f"{path.relative_to(FOLDER)}: {name}"
        for path in FOLDER.rglob("*.py")
        for name in definitions(path)
        if name in RETIRED
    }
    assert not found, f"use the field's term instead: {sorted(found)}"
