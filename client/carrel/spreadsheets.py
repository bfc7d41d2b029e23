"""Cells of CSV files for spreadsheets: text that looks like a formula stays text."""

from unicodedata import normalize

__all__ = ["as_text", "flag_of", "from_text"]

# Includes the full-width signs, which spreadsheets in some languages also read as formulas.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_text(cell: str) -> str:
    """Return a cell that spreadsheets show as text, with an apostrophe before a formula."""
    return f"'{cell}" if cell.lstrip("'").startswith(_FORMULA) else cell


def from_text(cell: str) -> str:
    """Return the original text of a cell escaped by `as_text`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA) else cell


# Spreadsheets write these in people's languages; αληθές and ψευδές are as `casefold` returns them.
_TRUE = """true yes 1 wahr vrai vero verdadero verdadeiro waar sant sand sann tosi prawda pravda igaz do\u011fru istina
adev\u0103rat benar t\u00f5ene patiess teisinga resni\u010dno истина істина αληθεσ 真 参 참"""
_FALSE = """false no 0 falsch faux falso onwaar falskt falsk usann ep\u00e4tosi fa\u0142sz nepravda neistina
yanli\u015f hamis fals salah v\u00e4\u00e4r aplams klaidinga neresni\u010dno ложь лъжа хибність ψευδεσ 假 거짓"""
_FLAGS = {word: words is _TRUE for words in (_TRUE, _FALSE) for word in words.split()}


def flag_of(cell: str) -> bool | None:
    """Return whether a cell says true or false, in any of the languages; None for other words."""
    return _FLAGS.get(normalize("NFC", cell.strip().casefold().replace("\u0131", "i")))
