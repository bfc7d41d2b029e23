"""Tables of cases, which are data: tests/data/cases."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "cases"


def cases(name: str):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
