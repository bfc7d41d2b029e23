"""What the service loads when it starts, and what only when it is first needed."""

import subprocess
import sys

# Each takes a good part of a second to import; most services never ask a database of documents.
LATER = ("pydantic_ai", "pymongo")


def test_what_few_need_is_loaded_by_the_first_that_does() -> None:
    """A service starts without what talks to models and to document databases."""
    code = f"import sys, service.server; print([name for name in {LATER} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
