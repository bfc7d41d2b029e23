"""Tables of cases, which are data: tests/data/cases."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "cases"


def cases(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
