"""Files that programs and systems leave beside people's files, known by their names: no load takes them."""

import re
from fnmatch import translate

LEFTOVERS = (
    # Office and other editors, while a file is open; downloads and copies that have not ended.
    *("~$*", "~wrl*.tmp", "~wrd*.tmp", ".~lock.*#", "*.tmp", "*.temp", "*.swp", "*.swo", "*~", "#*#", ".#*"),
    *("*.part", "*.partial", "*.crdownload", "*.opdownload", "*.download", "*.filepart", "*.!ut", "~*.lck"),
    # Windows, macOS, Linux, and network drives.
    *("thumbs.db", "thumbs.db:*", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini"),
    *(".ds_store", "._*", "icon\r", "icon\uf00d", ".localized", ".directory", ".nfs*", ".fuse_hidden*"),
    # Their folders, with everything in them.
    *("__macosx/*", "$recycle.bin/*", "system volume information/*", "lost+found/*", "@eadir/*", ".trash-*/*"),
    *(".appledouble/*", ".spotlight-v100/*", ".trashes/*", ".fseventsd/*", ".temporaryitems/*", "recycler/*"),
)
"""Patterns of names, in lower case; a pattern with a slash is of a folder."""

_ANY = re.compile("|".join(f"(?:.*/)?{translate(one)}" for one in LEFTOVERS), re.DOTALL)


def is_leftover(place: str) -> bool:
    """Return whether a file's path or name says that a program or a system left it behind."""
    return _ANY.match(place.replace("\\", "/").lower()) is not None
