"""What a size needs, as the page about scaling has it."""

from pathlib import Path

from bench.cost import Prices, estimate, to_markdown

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def test_the_page_has_what_the_last_results_say() -> None:
    """The table follows from the committed results, with the prices that the page names."""
    rows = estimate(Prices(core=15, memory=3, disk=0.1), searches=5)
    assert "\n".join(to_markdown(rows)) in PAGE.read_text()
