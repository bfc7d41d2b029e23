"""The workbench's looks: styles in assets/style.css, the page before its first run, and Carrel's logo."""

from pathlib import Path

_ASSETS = Path(__file__).with_name("assets")
STYLE = f"<style>\n{(_ASSETS / 'style.css').read_text()}</style>"
WAITING = f"<style>\n{(_ASSETS / 'waiting.css').read_text()}</style>"
"""The page before the first run, in outline: a title, a line of fields, and rows."""

SCRIPT = _ASSETS / "page.js"
"""The script loaded by each page in addition to Streamlit's."""

MARK = (_ASSETS / "mark.svg").read_text()
"""The icon as SVG: a book on a reading desk between two walls, in a colour visible in both themes."""
