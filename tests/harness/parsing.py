"""Python source as a syntax tree, for tests of what the code looks like."""

import ast
import gc


def parse_python(source: str) -> ast.Module:
    """Return the syntax tree of Python source, made without a search for garbage in between.

    What such a search ends may parse, too, as tracebacks do, or let another thread parse. Python 3.11 counts the depth
    of both in one place and fails with "AST constructor recursion depth mismatch" (github.com/python/cpython, 106905).
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if is_enabled:
            gc.enable()
