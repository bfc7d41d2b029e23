"""What an index of some size needs, and costs, by the figures that the other benchmarks have measured last.

Prices have no default that is right: pass your own. Run: `python -m bench.cost --core 15 --memory 3 --disk 0.1`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import RESULTS

SIZES = (10_000_000, 100_000_000, 1_000_000_000)
READERS = {"narrow": 0.002, "typical": 0.058, "wide": 0.574}
# Of `bench.synthetic`: chunks of 60 words, five to a document, with their documents and the words' statistics.
BYTES_PER_CHUNK = 2400
# Of these, what the first pass of a search by meaning reads: the covering index of code pages.
CODE_BYTES_PER_CHUNK = 106
HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Prices:
    """What a month of a processor core, of a gigabyte of memory, and of one of disk cost, in any currency."""

    core: float
    memory: float
    disk: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured: of a search, the database's milliseconds, and of a chunk, the processor's."""

    fixed: float
    per_thousand: float
    service: float
    loading: float

    def search_milliseconds(self, readable: float) -> float:
        """Return what the database takes for a HYBRID search of somebody who may read so many chunks, on one core."""
        return self.fixed + self.per_thousand * readable / 1000


def read_figures() -> Figures:
    """Read the last results: a line through the typical and the wide reader of a million chunks, and what loading took.

    Who may read few chunks is served faster than this line says.
    """
    searches = {row["reader"]: row for row in _rows("search-scale") if row["mode"] == "HYBRID"}
    (x, a), (y, b) = (
        (
            searches[reader]["chunks"] * float(searches[reader]["readable"].rstrip("%")) / 100,
            searches[reader]["legs p50 ms"],
        )
        for reader in ("typical", "wide")
    )
    slope = (b - a) / (y - x)
    loading = sum(row["value"] for row in _rows("ingest") if row["what"].startswith("processor ms a chunk,"))
    loading -= next(row["value"] for row in _rows("ingest") if row["what"] == "processor ms a chunk, bare embedding")
    service = max(row["processor ms, service"] for row in _rows("concurrency") if row["clients"] == 16)
    return Figures(fixed=a - slope * x, per_thousand=slope * 1000, service=service, loading=loading)


def estimate(prices: Prices, *, searches: float) -> list[dict[str, str]]:
    """Estimate what each size needs, with so many searches of typical readers a second at the busiest time."""
    figures = read_figures()
    return [_estimate_size(chunks, figures, prices, searches=searches) for chunks in SIZES]


def _estimate_size(chunks: int, figures: Figures, prices: Prices, *, searches: float) -> dict[str, str]:
    seconds = {reader: figures.search_milliseconds(share * chunks) / 1000 for reader, share in READERS.items()}
    cores = searches * (seconds["typical"] + figures.service / 1000)
    disk, codes = chunks * BYTES_PER_CHUNK / 1e9, chunks * CODE_BYTES_PER_CHUNK / 1e9
    hours = chunks * figures.loading / 3.6e6
    return {
        "chunks": f"{chunks // 1_000_000:,}M",
        "disk, and memory to cache it": f"{disk:,.0f} GB",
        "codes alone": f"{codes:,.0f} GB",
        "a search, by who may read 0.2 %, 5.8 %, 57 %": ", ".join(_round(one) for one in seconds.values()) + " s",
        "cores that search": f"{cores:,.1f}",
        "core hours to load": f"{hours:,.0f}",
        "a month": f"{cores * prices.core + disk * (prices.memory + prices.disk):,.0f}",
        "loading, once": f"{hours / HOURS_A_MONTH * prices.core:,.0f}",
    }


def _round(seconds: float) -> str:
    return f"{seconds:.{0 if seconds >= 10 else 2}f}"


def to_markdown(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, unit in (("core", "core"), ("memory", "gigabyte of memory"), ("disk", "gigabyte of disk")):
        parser.add_argument(f"--{name}", type=float, required=True, help=f"price of a {unit} for a month")
    parser.add_argument("--searches", type=float, default=5, help="searches a second at the busiest time")
    given = parser.parse_args()
    rows = estimate(Prices(given.core, given.memory, given.disk), searches=given.searches)
    print("\n".join(to_markdown(rows)))


def _rows(name: str) -> Sequence[Mapping[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


if __name__ == "__main__":
    main()
