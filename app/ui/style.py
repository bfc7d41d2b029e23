"""The workbench's looks: the rules of style in assets/style.css, the page before its first run, and Carrel's mark."""

from pathlib import Path

_ASSETS = Path(__file__).with_name("assets")
STYLE = f"<style>\n{(_ASSETS / 'style.css').read_text()}</style>"
WAITING = f"<style>\n{(_ASSETS / 'waiting.css').read_text()}</style>"
"""What is shown before a page's first run, in its shape: a title, a line of fields, and rows."""

SCRIPT = _ASSETS / "page.js"
"""What each page loads beside Streamlit's scripts."""

MARK = (_ASSETS / "mark.svg").read_text()
"""A reading desk between its two walls, with a book on it; drawn in a colour that both themes bear."""
