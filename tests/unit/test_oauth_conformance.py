"""docs/oauth-conformance.md names tests that are there."""

import ast
import re
from pathlib import Path

from tests.harness.parsing import parse_python

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "oauth-conformance.md"
ROW = re.compile(r"^\|.*\| `(tests/[\w/]+\.py)::(\w+)` \|$")


def test_every_test_the_page_names_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    named = [match.groups() for line in rows if (match := ROW.match(line))]
    headings = [line for line in rows if line.startswith(("|---", "| section", "| what must be | test"))]
    assert len(named) == len(rows) - len(headings)
    assert len(named) > 60
    found = {
        path: {
            node.name for node in ast.walk(parse_python((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
        }
        for path, _ in named
    }
    assert [f"{path}::{name}" for path, name in named if name not in found[path]] == []
