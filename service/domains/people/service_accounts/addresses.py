"""Making the local part of a service account's address from its name."""

import re
import unicodedata

LONGEST = 48
"""So that with its number it stays within the 64 characters of a local part (RFC 5321, section 4.5.3.1.1)."""

NAMELESS = "service-account"


def make_local_part(display_name: str) -> str:
    """Make a local part of lower-case ASCII letters, digits and single hyphens; `NAMELESS` if a name has none of these.

    Accents are removed (`Zürich` becomes `zurich`); other scripts are not transcribed, which would be a guess.
    """
    decomposed = unicodedata.normalize("NFKD", display_name.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return re.sub(r"[^a-z0-9]+", "-", letters.lower())[: LONGEST + 1].strip("-")[:LONGEST].rstrip("-") or NAMELESS
