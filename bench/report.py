"""How a benchmark says what it found: a table on the terminal, and the same rows in bench/results/<name>.json."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def report(name: str, rows: Sequence[Mapping[str, object]], *, keep: bool = True) -> None:
    """Print `rows` (all with the same members) as a table; keep them with the kind of machine, except a part alone."""
    columns = list(rows[0])
    widths = [max(len(column), *(len(str(row[column])) for row in rows)) for column in columns]
    print(f"\n{name}")
    for line in (dict(zip(columns, columns, strict=True)), *rows):
        print("  ".join(str(line[column]).ljust(width) for column, width in zip(columns, widths, strict=True)).rstrip())
    if not keep:
        return
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": {"cores": os.cpu_count(), "python": platform.python_version()}, "rows": list(rows)}
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n")
