"""Files left out of a run by default, unless a manifest or the last part of a pattern includes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate

from carrel.wire.file_names import LEFTOVERS, is_leftover

SECRETS = "keys and secrets"
EXCLUDED = "excluded"
"""The reason for files excluded by a run's own patterns."""
HIDDEN = "hidden"
LEFTOVER = "left behind by programs"

# The first match is the reason, so that a secret is reported as a secret, whatever else matches.
EXCLUSIONS: Mapping[str, Sequence[str]] = {
    reason: patterns.split()
    for reason, patterns in {
        # *.key is for TLS; Keynote, which also uses it, has files that the service can't read.
        SECRETS: ".env .env.* *.env *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk"
        " id_rsa id_dsa id_ecdsa id_ed25519 .netrc .npmrc .pgpass .htpasswd .git-credentials",
        "certificates": "*.crt *.cer *.csr *.der *.p7b id_*.pub",
        "lock files": "*.lock *.lockb package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json"
        " .terraform.lock.hcl package.resolved go.sum",
        "minified files and source maps": "*.min.js *.min.css *.min.mjs *.map",
        "stylesheets": "*.css *.scss *.sass *.less",
    }.items()
}
"""The patterns by reason; names known to `carrel.wire.file_names` are left out before."""
_ANY = re.compile("|".join(translate(pattern) for patterns in EXCLUSIONS.values() for pattern in patterns))


@dataclass(frozen=True, slots=True)
class FileSelection:
    """A selection of files by patterns in any case: `exclude` overrides `include`, which overrides `EXCLUSIONS`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    named: str = ""

    def reason_to_exclude(self, place: str, *, real_name: str = "") -> str:
        """Return why a run excludes the file at a place, or an empty text; `real_name` is a link's target."""
        if self.exclude and _fits(place, self.exclude):
            return LEFTOVER if is_leftover(place) else EXCLUDED
        if self.include and _fits(place, self.include):
            return ""
        reason = default_reason(place, named=self.named)
        if reason or not real_name or place.rpartition("/")[2] == real_name:  # nearly all files are not links
            return reason
        return default_reason(real_name, named=self.named)


def default_reason(place: str, *, named: str = "") -> str:
    """Return why a file is left out by default, or an empty text; `named` is the file's name given as the source."""
    if is_leftover(place) and not is_leftover(named):
        return LEFTOVER
    name = place.lower().rpartition("/")[2]
    if not _ANY.match(name):  # there may be millions of files, and nearly all end here
        return ""
    for reason, patterns in EXCLUSIONS.items():
        if any(fnmatchcase(name, item) and not fnmatchcase(named.lower(), item) for item in patterns):
            return reason
    return ""


def advice(reason: str, example: str) -> str:
    """Return how to include files left out for a reason, such as `example`; empty when impossible."""
    if reason == HIDDEN:
        return "--hidden adds them"
    patterns = LEFTOVERS if reason == LEFTOVER else EXCLUSIONS.get(reason, ())
    pattern = next((item for item in patterns if _fits(example, [item, f"*/{item}"])), "")
    if not pattern:
        return ""
    hidden = "--hidden " if any(part.startswith(".") for part in example.split("/")) else ""
    return f"{hidden}--include '{pattern}' adds them"


def _fits(place: str, patterns: Sequence[str]) -> bool:
    whole = place.lower()
    name = whole.rpartition("/")[2]
    return any(fnmatchcase(name, item.lower()) or fnmatchcase(whole, item.lower()) for item in patterns)
