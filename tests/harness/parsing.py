"""Python source as a syntax tree, for tests of the code's form."""

import ast
import gc


def parse_python(source: str) -> ast.Module:
    """Return Python source's syntax tree without garbage collection. Finalizers may parse, too, or let another thread
    parse, and Python 3.11 counts both depths in one place: "AST constructor recursion depth mismatch"
    (github.com/python/cpython, 106905)."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if is_enabled:
            gc.enable()
