"""Explaining the mistakes of an entry in the file of deployments, in the terms of the file."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flows.marked_yaml import Place

Mistake = tuple[Place, str]
"""Where in the entry (nowhere: the entry as a whole), and what is wrong there."""

_WORDS = {
    "string_pattern_mismatch": "a name is of small letters, digits and hyphens, 100 at most, with no hyphen at an end",
    "string_too_short": "it is empty",
    "string_type": "it must be a text; what is none by itself, such as a number, needs quotes",
    "list_type": "it must be a list, such as [one, another]",
    "dict_type": "it must have members, each as `name: value`",
    "model_type": "it must have members, each as `name: value`",
    "model_attributes_type": "it must have members, each as `name: value`",
}
_KINDS = (("bool_", "it must be true or false"), ("int_", "it must be a whole number"))


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a question with a known name that is similar, or an empty text."""
    return "".join(f"; did you mean `{one}`?" for one in get_close_matches(name, list(known), n=1))


def entry_mistakes(error: ValidationError, *, members: Sequence[str], options: Sequence[str]) -> Iterator[Mistake]:
    """Yield the mistakes of an entry's own members; `options`: the other names that its flow knows."""
    for one in error.errors(include_url=False, include_input=False):
        place = one["loc"]
        if one["type"] == "missing":
            yield (), f"`{place[-1]}` is missing"
        elif one["type"] != "extra_forbidden":
            yield place, _words(one)
        elif place[-1] in options:
            yield place, f"`{place[-1]}` belongs under `options`"
        else:
            yield place, f"there is no member `{place[-1]}`{suggestion(str(place[-1]), [*members, *options])}"


def parameter_mistakes(
    error: ValidationError, *, flow: str, given: Sequence[str], members: Sequence[str], options: Sequence[str]
) -> Iterator[Mistake]:
    """Yield the mistakes of a flow's parameters; `given` are the members of the entry that are passed to it."""
    for one in error.errors(include_url=False, include_input=False):
        under = one["loc"][1:] if one["loc"][:1] == ("options",) else one["loc"]
        name = str(under[0]) if under else ""
        place: Place = under if name in given or not under else ("options", *under)
        if one["type"] == "missing":
            yield (), f"`{under[-1]}` is missing"
        elif one["type"] != "extra_forbidden":
            yield place, _words(one)
        elif name in given:
            yield place, f"the flow {flow} takes no `{name}`"
        elif name in members:
            yield place, f"`{name}` stands beside `options`, not under it"
        else:
            yield place, f"{flow} has no option `{name}`{suggestion(name, options)}"


def _words(error: ErrorDetails) -> str:
    kind, limits = error["type"], error.get("ctx", {})
    if kind == "less_than_equal":
        return f"it must be {limits['le']} or less"
    if kind == "greater_than_equal":
        return f"it must be {limits['ge']} or more"
    general = next((words for prefix, words in _KINDS if kind.startswith(prefix)), "")
    return general or _WORDS.get(kind) or error["msg"].removeprefix("Value error, ")
