"""Links in replies: no images, and no links invented by a model, since an address can send any words to its owner."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from service.domains.agents.answering.hidden import SCRIPT_REMOVED

IMAGE_REMOVED = "An image was removed: replies show none."
LINK_REMOVED = "A link was removed: its address stands neither in the passages nor in the conversation."

# Some renderers also make links from Markdown's escapes and from mail addresses.
_COLON, _SLASH = r"(?::|&(?:colon|#0*58|#x0*3a);)", r"(?:/|&(?:sol|#0*47|#x0*2f);)"
_SCHEME = rf"(?:[a-z][a-z0-9+.-]{{1,20}}{_COLON}{_SLASH}{{2}}|mailto{_COLON}|www(?:\.|&(?:period|#0*46|#x0*2e);))"
_MAIL = r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,20}"
# An address as written, and as far as a renderer of bare addresses may read it: up to white space or a tag.
_WRITTEN = re.compile(rf"{_SCHEME}[^\s<>\"`\ue000\ue001]+|{_MAIL}", re.IGNORECASE)
_ADDRESS = re.compile(rf"{_SCHEME}(?:(?!\]\()[^\s<\ue000\ue001])+|{_MAIL}", re.IGNORECASE)
_TRAILING = ".,;:!?)]}'*_~|\"`>"
# The only addresses that may be repeated: none runs code, and none has a spelling that a browser reads differently.
_LEADS = re.compile(
    r"(?!(?:javascript|vbscript|data):)[a-z][a-z0-9+.-]*://[^\\]*|mailto:[^\\]*|[^:&\\/?#]*(?:[/?#][^\\]*)?",
    re.IGNORECASE,
)

_IMAGE = re.compile(r"!\[[^\[\]]{0,500}\](?:\([^()]{0,2000}\)|\[[^\[\]]{0,500}\])?|!(?=\[)")
# Attributes of such a tag are plain words without addresses.
_HARMLESS = r'[a-z][a-z0-9-]*+(?:\s++[\w:-]++="[\w .-]*+")*+\s*+/?>'
_TAG = re.compile(
    r"<(?=/?(?:img|image|a|iframe|frame|script|style|link|object|embed|svg|video|audio|source|picture|form|input|button"
    rf"|base|meta)\b)[^<>]*>?|<(?!{_HARMLESS})[a-z][a-z0-9-]*+[\s/][^<>=]*+=[^<>]*+>",
    re.IGNORECASE,
)
_PICTURES = frozenset({"img", "image", "svg", "video", "audio", "source", "picture"})
# A tag without an end, which another person's text may end; and `<scheme:…>`, a link without two slashes.
_HALF_TAG = re.compile(
    rf"<(?!{_HARMLESS})(?=[a-z][a-z0-9-]*+[\s/][^<>=]*+=|(?!{_SCHEME})[a-z][a-z0-9+.-]{{1,31}}:[^\s<>]*+>)",
    re.IGNORECASE,
)
# A link's target as Markdown reads it: text in angle brackets, or text up to white space with paired parentheses.
_LEADS_TO = r"\s*+(?:<(?P<angle>[^<>\n]*+)>|(?P<plain>(?!<)[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*+)(?!\())"
_LINK = re.compile(rf"\[(?P<label>[^\[\]]{{0,500}})\]\({_LEADS_TO}[^()]{{0,500}}\)")
_NUMBER = re.compile(r"\A\^?\d{1,3}\Z")
_TARGET = re.compile(rf"\]\((?:(?={_LEADS_TO})|)")
_DEFINED = r"\s*+(?:<(?P<angle>[^<>\n]*+)>|(?P<plain>(?!<)[^\s/\\:&]*+[/\\:&]\S*+))"
_DEFINITION = re.compile(rf"^[ ]{{0,3}}\[[^\[\]\n]{{1,500}}\]:{_DEFINED}", re.MULTILINE)
_DEFINES = re.compile(rf"\]:(?={_DEFINED})")


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """Return every complete address in the texts, both written out and as link targets."""
    found: set[str] = set()
    for text in texts:
        found.update(_target(match) for match in _TARGET.finditer(text))
        for pattern in (_WRITTEN, _ADDRESS):
            for match in pattern.finditer(text):
                bare = match[0].rstrip(_TRAILING).removeprefix("mailto:")
                found |= {match[0], match[0].rstrip(_TRAILING), bare, *([bare.lower()] if "@" in bare else ())}
    return frozenset(address for address in found if address and _LEADS.fullmatch(address))


def _target(match: re.Match[str]) -> str:
    return match["angle"] or match["plain"] or ""


@dataclass(slots=True)
class LinkFilter:
    """Removes images and links to unknown addresses; `warnings` describes the removed parts."""

    known: frozenset[str]
    warnings: set[str] = field(default_factory=set[str])

    def clean(self, text: str) -> str:
        """Return the text without images and unknown links; the words of a link stay."""
        text = _IMAGE.sub(self._drop_image, text)
        text = _TAG.sub(self._drop_tag, text)
        text = _HALF_TAG.sub(self._break_tag, text)
        text = _DEFINITION.sub(lambda match: self._keep_known(match, ""), text)
        text = _DEFINES.sub(lambda match: self._keep_known(match, "] :"), text)
        text = _LINK.sub(lambda match: self._keep_known(match, _NUMBER.sub("", match["label"])), text)
        text = _TARGET.sub(lambda match: self._keep_known(match, "] ("), text)
        return _ADDRESS.sub(self._keep_known_address, text)

    def _drop_image(self, _match: re.Match[str]) -> str:
        self.warnings.add(IMAGE_REMOVED)
        return ""

    def _drop_tag(self, match: re.Match[str]) -> str:
        name = re.findall(r"\w+", match[0])[0].lower()
        other = LINK_REMOVED if name in {"a", "base", "link"} else SCRIPT_REMOVED
        self.warnings.add(IMAGE_REMOVED if name in _PICTURES else other)
        return ""

    def _break_tag(self, match: re.Match[str]) -> str:
        self.warnings.add(LINK_REMOVED)
        return f"{match[0]} "

    def _keep_known(self, match: re.Match[str], instead: str) -> str:
        if _target(match) in self.known:
            return match[0]
        self.warnings.add(LINK_REMOVED)
        return instead

    def _keep_known_address(self, match: re.Match[str]) -> str:
        address = match[0].rstrip(_TRAILING)
        if not self.known.isdisjoint({match[0], address, address.lower()}):
            return match[0]
        self.warnings.add(LINK_REMOVED)
        return match[0][len(address) :]
