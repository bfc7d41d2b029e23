"""Links that a model made up are a way out for what it read: an address can carry any words to whoever owns it.

So a reply shows no images at all (they are fetched without a click), and of links those only whose whole address stands
in what the model was given: the passages, the person's words, the conversation so far, the agent's instructions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

IMAGE_REMOVED = "An image was removed: replies show none."
LINK_REMOVED = "A link was removed: its address stands neither in the passages nor in the conversation."

_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}://|mailto:|www\.)[^\s<>\"`\ue000\ue001]+", re.IGNORECASE)
_TRAILING = ".,;:!?)]}'*_~|"

_IMAGE = re.compile(r"!\[[^\[\]]{0,500}\](?:\([^()]{0,2000}\)|\[[^\[\]]{0,500}\])?|!(?=\[)")
_TAG = re.compile(
    r"<(?=/?(?:img|image|a|iframe|frame|script|style|link|object|embed|svg|video|audio|source|picture|form|input|button"
    r"|base|meta)\b)[^<>]*>?|<[a-z][^<>]*=[^<>]*>",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[(?P<label>[^\[\]]{0,500})\]\(\s*<?(?P<target>[^\s<>()]*)[^()]{0,500}\)")
_TARGET = re.compile(r"\]\((?=\s*<?(?P<target>[^\s<>()]*))")
_DEFINITION = re.compile(r"^[ ]{0,3}\[[^\[\]\n]{1,500}\]:\s*<?(?P<target>[^\s<>]*[/\\:][^\s<>]*)>?", re.MULTILINE)


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """Return every address that stands in texts, as a whole: what is written out, and what links point to."""
    found: set[str] = set()
    for text in texts:
        found.update(match["target"] for match in _TARGET.finditer(text))
        for match in _ADDRESS.finditer(text):
            found |= {match[0], match[0].rstrip(_TRAILING)}
    return frozenset(found - {""})


@dataclass(slots=True)
class LinkFilter:
    """Removes images, and links to addresses that aren't known; `warnings` says what was removed."""

    known: frozenset[str]
    warnings: set[str] = field(default_factory=set[str])

    def clean(self, text: str) -> str:
        """Return the text without them; the words of a link stay."""
        text = _IMAGE.sub(self._image, text)
        text = _TAG.sub(self._image, text)
        text = _DEFINITION.sub(lambda match: self._unless_known(match, ""), text)
        text = _LINK.sub(lambda match: self._unless_known(match, match["label"]), text)
        text = _TARGET.sub(lambda match: self._unless_known(match, "] ("), text)
        return _ADDRESS.sub(self._address, text)

    def _image(self, _match: re.Match[str]) -> str:
        self.warnings.add(IMAGE_REMOVED)
        return ""

    def _unless_known(self, match: re.Match[str], instead: str) -> str:
        if match["target"] in self.known:
            return match[0]
        self.warnings.add(LINK_REMOVED)
        return instead

    def _address(self, match: re.Match[str]) -> str:
        whole = match[0]
        address = whole.rstrip(_TRAILING)
        if whole in self.known or address in self.known:
            return whole
        self.warnings.add(LINK_REMOVED)
        return whole[len(address) :]
