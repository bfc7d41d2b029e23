"""Remove text hidden from readers: reasoning, scripts, tool calls written as text, and deceptive characters."""

import re
import tomllib
from collections.abc import Callable, Collection
from functools import cache, partial
from pathlib import Path

_SET = tomllib.loads(Path(__file__).with_suffix(".toml").read_bytes().decode())
_NAMES, _WARNINGS = _SET["names"], _SET["warnings"]
_NAMED = re.compile(rf"(?<![A-Z_])(?:{'|'.join(_NAMES)})(?![A-Z_])")
_REMOVED = [
    (re.compile(f"(?ism){_NAMED.sub(lambda name: _NAMES[name[0]], pattern)}"), each)
    for each in _SET["removed"]
    for pattern in [each["pattern"] + ("" if each.get("code") else "|(?P<kept>CODE)")]
]
SCRIPT_REMOVED, CALL_REMOVED = _WARNINGS["script"], _WARNINGS["call"]


def remove_hidden(text: str, warnings: set[str], *, known: Collection[str]) -> str:
    """Return a text without hidden parts, adding warnings; tool calls of a `known` text stay, as part of the answer."""
    # Join surrogate pairs; remove single surrogates, which are not text.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore").replace("\r\n", "\n")

    @cache
    def stands(call: str) -> bool:
        return any(call in "".join(each.split()) for each in known)

    for pattern, each in _REMOVED:
        if each.get("before") and (ends := [end.end() for end in pattern.finditer(text) if not end["kept"]]):
            warnings.add(_WARNINGS[each["warning"]])
            text = text[ends[-1] :]
        text = pattern.sub(partial(_replace, each=each, warnings=warnings, stands=stands), text)
    return text


def _replace(match: re.Match[str], *, each: dict[str, str], warnings: set[str], stands: Callable[[str], bool]) -> str:
    groups = match.groupdict()
    if groups.get("kept") or (groups.get("call") and _is_answer(match, stands)):
        return match[0]
    if "warning" in each:
        warnings.add(_WARNINGS[each["warning"]])
    return each.get("instead", "")


def _is_answer(match: re.Match[str], stands: Callable[[str], bool]) -> bool:
    """Return whether an apparent tool call or markup is text of the reply: no tool has its name, or a text has it."""
    call = "".join(match["call"].split())
    if f'"{_NAMES["TOOL"]}"' in call:
        return False
    has_fence = match.groupdict().get("fence")
    if has_fence and (match.string[: match.start()] + match.string[match.end() :]).strip():
        return True
    return stands(call)
