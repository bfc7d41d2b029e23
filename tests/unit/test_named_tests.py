"""Tests named in tests/oauth/conformance.md and the two TOML files exist."""

import ast
import re
from functools import cache

from scripts.mutations import MUTATIONS, ROOT, read_mutations
from tests.harness.lanes import SLOW
from tests.harness.parsing import parse_python

PAGE = ROOT / "tests" / "oauth" / "conformance.md"
ROW = re.compile(r"^\|.*\| `(tests/[\w/]+\.py::\w+)` \|$")


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name.partition("[")[0] in functions_in(path)


@cache
def functions_in(path: str) -> set[str]:
    tree = parse_python((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_the_page_names_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    named = [match[1] for line in rows if (match := ROW.match(line))]
    headings = [line for line in rows if line.startswith(("|---", "| section", "| what must be | test"))]
    assert len(named) == len(rows) - len(headings)
    assert len(named) > 60
    assert [test for test in named if not exists(test)] == []


def test_every_mutation_has_its_text_and_its_tests() -> None:
    for mutation in read_mutations(MUTATIONS):
        mutation.apply((ROOT / mutation.file).read_text())
        assert [test for test in mutation.tests if not exists(test)] == [], mutation.id


def test_every_test_left_to_the_second_lane_has_another_in_the_first() -> None:
    for path, tests in SLOW.items():
        for pattern, holder in tests.items():
            where, _, name = holder.rpartition("::")
            assert exists(f"{where or path}::{name}"), holder
            assert not any(re.fullmatch(slow, name) for slow in SLOW.get(where or path, ())), holder
            assert any(re.fullmatch(pattern.partition(r"\[")[0], one) for one in functions_in(path)), pattern
