"""File names: leftovers of programs, a name's forms in Unicode, and names valid on every disk."""

import re
from fnmatch import translate
from unicodedata import normalize

LEFTOVERS = (
    # Files that Office and other editors keep while a file is open, and unfinished downloads and copies.
    *("~$*", "~wrl*.tmp", "~wrd*.tmp", ".~lock.*#", "*.tmp", "*.temp", "*.swp", "*.swo", "*~", "#*#", ".#*"),
    *("*.part", "*.partial", "*.crdownload", "*.opdownload", "*.download", "*.filepart", "*.!ut", "~*.lck"),
    # Files of Windows, macOS, Linux, and network drives.
    *("thumbs.db", "thumbs.db:*", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini"),
    *(".ds_store", "._*", "icon\r", "icon\uf00d", ".localized", ".directory", ".nfs*", ".fuse_hidden*"),
    # Folders of programs, with all contents.
    *("__macosx/*", "$recycle.bin/*", "system volume information/*", "lost+found/*", "@eadir/*", ".trash-*/*"),
    *(".appledouble/*", ".spotlight-v100/*", ".trashes/*", ".fseventsd/*", ".temporaryitems/*", "recycler/*"),
)
"""Patterns of names, in lower case; a pattern with a slash is of a folder."""

_AT_ROOT = "recycler/*"  # only at the root of a volume (old Windows), because people may name other folders so
_FOLDERS = {item: "(?:[a-z]:)?" if item == _AT_ROOT else ".*" for item in LEFTOVERS}
_ANY = re.compile(
    "|".join(f"(?:{_FOLDERS[one]}/)?{'' if '/' in one else '(?!.*/)'}{translate(one)}" for one in LEFTOVERS), re.DOTALL
)


def is_leftover(place: str) -> bool:
    """Return whether a file's path or name marks it as a leftover of a program or system."""
    return _ANY.match(place.replace("\\", "/").lower()) is not None


def forms_of(name: str) -> list[str]:
    """Return a name as written, composed (NFC) and decomposed (NFD), without repetitions."""
    return list(dict.fromkeys((name, normalize("NFC", name), normalize("NFD", name))))


LONGEST_NAME = 255  # bytes, the limit of the usual file systems
_UNSAFE = re.compile('[<>:"|?*\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])[ ]*(\..*)?", re.IGNORECASE)


def safe_name(name: str) -> str:
    """Return a file's name without folders, valid on every system; `download` if the result is empty."""
    last = _UNSAFE.sub("_", re.split(r"[/\\]", name)[-1]).strip().rstrip(". ")
    return shorten_name(f"_{last}" if _DEVICE.fullmatch(last) else last) or "download"


def shorten_name(name: str) -> str:
    """Return a name of at most 255 bytes; a suffix stays, because it gives the format."""
    stem, dot, suffix = name.rpartition(".")
    ending = (dot + suffix).encode(errors="replace")
    if not stem or len(ending) > 32:
        return name.encode(errors="replace")[:LONGEST_NAME].decode(errors="ignore")
    return stem.encode(errors="replace")[: LONGEST_NAME - len(ending)].decode(errors="ignore") + ending.decode()
