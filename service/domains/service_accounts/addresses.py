"""From what people call a service account to the local part of its address."""

import re
import unicodedata

LONGEST = 48
"""So that with its number it stays within the 64 characters of a local part (RFC 5321, section 4.5.3.1.1)."""

NAMELESS = "service-account"


def make_local_part(display_name: str) -> str:
    """Lower-case ASCII letters and digits with single hyphens; `NAMELESS` for a name without any of these.

    Accents fall away (`Zürich` is `zurich`); other scripts are not transcribed, which could only be guessed at.
    """
    decomposed = unicodedata.normalize("NFKD", display_name.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return re.sub(r"[^a-z0-9]+", "-", letters.lower())[: LONGEST + 1].strip("-")[:LONGEST].rstrip("-") or NAMELESS
