"""YAML written by people: values with the lines where they begin, and keys that are repeated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import yaml

Place = tuple[str | int, ...]
"""Where a value is: keys of objects and indexes of lists, from the outside in."""


class InvalidYamlError(Exception):
    """The text isn't YAML; `line` counts from 1, and is None when unknown."""

    def __init__(self, problem: str, *, line: int | None) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class Marked:
    """A document's value with its lines; YAML itself silently takes the last of `repeated` keys."""

    value: object
    lines: Mapping[Place, int]
    repeated: Sequence[Place]

    def line_of(self, place: Place) -> int:
        """Return the line of a value, or of the nearest value around it."""
        return next((self.lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self.lines), 1)


def load(text: str) -> Marked:
    """Read a document. Raises InvalidYamlError."""
    try:
        node = cast("yaml.Node | None", yaml.compose(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - the stubs say nothing
        value = cast("object", yaml.safe_load(text))
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        problem = str(getattr(exc, "problem", None) or exc)
        raise InvalidYamlError(problem, line=None if mark is None else mark.line + 1) from exc
    lines: dict[Place, int] = {}
    repeated: list[Place] = []
    for place, line in _places(node):
        if place in lines:
            repeated.append(place)
        lines[place] = line
    return Marked(value, lines, repeated)


def _places(node: yaml.Node | None, place: Place = ()) -> Iterator[tuple[Place, int]]:
    for key, line, value in _children(node):
        yield (*place, key), line
        yield from _places(value, (*place, key))


def _children(node: yaml.Node | None) -> Iterator[tuple[str | int, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield index, value.start_mark.line + 1, value
