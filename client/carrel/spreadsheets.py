"""Cells of CSV files that spreadsheets open safely: what begins like a formula stays text."""

__all__ = ["as_text", "from_text"]

# In their wide form, too, which spreadsheets of some languages read as the others.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_text(cell: str) -> str:
    """Return a cell that spreadsheets show as text, with an apostrophe before what they would compute."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def from_text(cell: str) -> str:
    """Return what a cell was before `as_text` put an apostrophe in front."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
