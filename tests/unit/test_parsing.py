"""Source is parsed whatever else the process does."""

import ast
import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.parsing import parse_python


@contextmanager
def parsing_with_garbage() -> Generator[None]:
    """Have each search for garbage parse, as the traceback of a finalizer that failed does, and search often."""

    def parse(*_: object) -> None:
        ast.parse("x")

    usual = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(parse)


def test_source_is_parsed_beside_a_search_for_garbage() -> None:
    """Nothing that such a search ends disturbs it, and it goes on afterwards."""
    with parsing_with_garbage():
        trees = [parse_python(Path(__file__).read_text()) for _ in range(20)]
    assert all(tree.body for tree in trees)
    assert gc.isenabled()
