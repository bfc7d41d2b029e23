"""Every refusal of the service, read from its source: where an error is made, with which status, code and message.

Nothing is run: an error is what calls a subclass of ServiceError. A code is a text where the error is made, its class's
default, or a parameter or variable whose values stand in the same way; a code that comes about otherwise is `Unseen`,
so that none is missing from the page.
"""

import ast
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from service.platform import errors
from service.text.extraction.failures import Unreadable
from service.text.reading import UnreadableFile

ROOT = Path(__file__).parents[1]
GAP = "…"
"""What stands in a message for what is known at run time alone."""

# Made of errors that are made elsewhere, where they are read: their codes are those.
FORWARDED = frozenset(
    {
        ("service.text.extraction.workers", "_run"),
        ("service.domains.agents.conversations.reading.turns", "_failure"),
        ("service.domains.agents.answering.replying", "_run"),
        ("service.domains.agents.answering.failures", "failure"),
        ("service.text.embedding.exchange", "take"),
    }
)
# Where the errors' own module makes some.
OF_THE_FRAMEWORK = {
    "internal_error",
    "from_validation",
    "database_full",
    "database_away",
    "commit_unconfirmed",
    "requests_saturated",
    "_database_slow",
    "_unserved",
}
_SEVERAL = re.compile(f"{GAP}+")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Bindings = Mapping[str, "Bound"]


class Unseen(Exception):  # noqa: N818 - named for what it says of a code
    """A code, status or class that can't be told from the source; the message names the place."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that an error says, with `GAP`s, and the module that makes it."""

    module: str
    status: int
    code: str
    message: str


class Module:
    """A module's source, with the way from each node up."""

    def __init__(self, path: Path, *, root: Path = ROOT) -> None:
        self.place = path.relative_to(root)
        self.name = ".".join(self.place.with_suffix("").parts).removesuffix(".__init__")
        self.tree = ast.parse(path.read_text())
        self.nodes = list(ast.walk(self.tree))
        self._places = {child: (node, field) for node in self.nodes for field, child in _children(node)}

    def above(self, node: ast.AST) -> Generator[ast.AST]:
        """Yield what a node stands in, the nearest first."""
        while (node := self.block_of(node)[0]) is not self.tree:
            yield node

    def block_of(self, node: ast.AST) -> tuple[ast.AST, str]:
        """Return what a node stands in, and as which of its parts: an `if` has a body, and one for otherwise."""
        return self._places.get(node, (self.tree, ""))

    def rows(self, name: str) -> list[ast.expr]:
        """Return the rows of a constant of the module that is a tuple."""
        assigned = (node for node in self.tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)))
        found = (node.value for node in assigned if name in {getattr(one, "id", "") for one in _targets(node)})
        return next((one.elts for one in found if isinstance(one, ast.Tuple)), [])

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the function that a node stands in."""
        return next((one for one in self.above(node) if isinstance(one, Function)), None)

    def calls(self, name: str) -> list[ast.Call]:
        """Return the calls of a function, or method, of this name."""
        return [node for node in self.nodes if isinstance(node, ast.Call) and _called(node) == name]

    def knows(self, function: str, *, of: str) -> bool:
        """Tell whether a function's name is, here, that of this module."""
        return self.name == of or (of, function) in self._imported

    def value(self, name: str) -> Any:
        """Return a value of the module by its name; None when there is none."""
        return self._values.get(name)

    @cached_property
    def _values(self) -> dict[str, Any]:
        return vars(import_module(self.name))

    @cached_property
    def _imported(self) -> set[tuple[str | None, str]]:
        found = (node for node in self.nodes if isinstance(node, ast.ImportFrom))
        return {(node.module, one.name) for node in found for one in node.names}


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression that a name stands for, and where it is read."""

    expression: ast.expr
    module: Module


class Source:
    """The whole of the service's source."""

    def __init__(self, modules: Sequence[Module] | None = None) -> None:
        paths = sorted((ROOT / "service").rglob("*.py"))
        self.modules = modules or [Module(path) for path in paths if "migrations" not in path.parts]

    def refusals(self) -> Iterator[Refusal]:
        """Yield every place where an error is made, in the order of the files; Unseen names what can't be told."""
        for module in self.modules:
            if module.name == errors.__name__:
                yield from self._of_classes(module, OF_THE_FRAMEWORK)
            else:
                yield from self._of_classes(module)

    def _of_classes(self, module: Module, functions: frozenset[str] | set[str] = frozenset()) -> Iterator[Refusal]:
        for node in module.nodes:
            kind = _error_class(node, module)
            function = module.function_of(node)
            name = function.name if function else ""
            if kind is None or (functions and name not in functions) or (module.name, name) in FORWARDED:
                continue
            call = next(module.above(node), None)
            if isinstance(call, ast.Call) and call.func is node:
                yield from self._made(call, kind, module)
            elif not _is_mention(node, module):
                raise _unseen(node, module, "stands for an error that is made elsewhere")

    def _made(self, call: ast.Call, kind: type[Exception], module: Module) -> Iterator[Refusal]:
        given = _arguments(call, ("code", "message") if kind is Unreadable else ("message",))
        used = {one.id for name in ("code", "message") if isinstance(one := given.get(name), ast.Name)}
        for names in self._environments(call, used, module):
            code = self._code(given.get("code"), kind, module, names)
            status = _status(given.get("status"), kind, code)
            if status is None:
                raise _unseen(call, module, "has a status that is computed")
            for message in self._texts(given["message"], module, names):
                yield Refusal(module.name, status, code, message)

    def _code(self, given: ast.expr | None, kind: type[Exception], module: Module, names: Bindings) -> str:
        if given is None:
            return getattr(kind, "default_code")  # noqa: B009 - Unreadable has none, and is always given one
        bound = names.get(given.id, Bound(given, module)) if isinstance(given, ast.Name) else Bound(given, module)
        if isinstance(bound.expression, ast.Constant) and isinstance(bound.expression.value, str):
            return bound.expression.value
        raise _unseen(given, module, "has a code that is computed")

    def _environments(self, call: ast.Call, wanted: set[str], module: Module) -> list[Bindings]:
        """Return what the names that a call uses may stand for, those belonging together in one."""
        function = module.function_of(call)
        if function is None or not wanted:
            return [{}]
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if wanted & {one.arg for one in parameters}:
            return self._from_callers(function, module) or [{}]
        return _from_assignments(call, wanted, module) or [{}]

    def _from_callers(self, function: Function, module: Module) -> list[Bindings]:
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        defaults = {
            one.arg: value
            for one, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if value is not None
        }
        found: list[Bindings] = []
        for other in self.modules:
            if other.knows(function.name, of=module.name):
                for call in other.calls(function.name):
                    given = {**defaults, **_arguments(call, names)}
                    found.append({name: Bound(value, other) for name, value in given.items()})
        return found

    def _texts(self, given: ast.expr, module: Module, names: Bindings) -> list[str]:
        if isinstance(given, ast.Name) and given.id in names:
            bound = names[given.id]
            return self._texts(bound.expression, bound.module, {})
        if isinstance(given, ast.IfExp):
            return [*self._texts(given.body, module, names), *self._texts(given.orelse, module, names)]
        if isinstance(given, ast.Subscript) and isinstance(given.value, ast.Name):
            values = module.value(given.value.id)
            return [str(value) for value in values.values()] if isinstance(values, Mapping) else [GAP]
        return [_SEVERAL.sub(GAP, _text(given, module))]

    def reply_codes(self) -> dict[str, str]:
        """What the members `errorCode` and `errorMessage` of a message's job may say beside an error's."""
        found = [
            (_arguments(node, ()), module) for module in self.modules for node in module.nodes if _is_failed_job(node)
        ]
        return {
            given["error_code"].value: _text(given["error_message"], module)
            for given, module in found
            if isinstance(given["error_code"], ast.Constant)
        }


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _targets(node: ast.Assign | ast.AnnAssign) -> Sequence[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _error_class(node: ast.AST, module: Module) -> type[Exception] | None:
    if isinstance(node, ast.Attribute):
        value = vars(errors).get(node.attr)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        value = module.value(node.id)
    else:
        return None
    wanted = isinstance(value, type) and issubclass(value, (errors.ServiceError, Unreadable))
    return value if wanted and value is not UnreadableFile else None


def _is_mention(node: ast.AST, module: Module) -> bool:
    """Tell whether an error's class is only asked for: in an annotation, an `except`, a base, an `isinstance`."""
    below = node
    for above in module.above(node):
        if isinstance(above, (ast.ExceptHandler, ast.ClassDef, ast.arg, ast.AnnAssign)):
            return True
        if isinstance(above, Function):
            return below is above.returns
        if isinstance(above, ast.Call) and below is not above.func:
            return _called(above) in {"isinstance", "add_exception_handler", "suppress"}
        below = above
    return False


def _is_failed_job(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node) == "FailedJob"


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _arguments(call: ast.Call, positions: Sequence[str]) -> dict[str, ast.expr]:
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return dict(zip(positions, call.args, strict=False)) | named


def _status(given: ast.expr | None, kind: type[Exception], code: str) -> int | None:
    if kind is Unreadable:
        return UnreadableFile(Unreadable(code, "")).status  # pyright: ignore[reportArgumentType]
    if given is None:
        return getattr(kind, "default_status")  # noqa: B009 - as above
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, int) else None


def _from_assignments(call: ast.Call, wanted: set[str], module: Module) -> list[Bindings]:
    """Return what variables stand for: what the nearest block gives them, else what each of several does."""
    blocks: dict[tuple[ast.AST, str], dict[str, Bound]] = {}
    for node in ast.walk(module.function_of(call) or call):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            values = {name: Bound(value, module) for name, value in _pairs(node.targets[0], node.value)}
            blocks.setdefault(module.block_of(node), {}).update(values)
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
            rows = [dict(_pairs(node.target, row)) for row in module.rows(node.iter.id)]
            if rows and wanted <= rows[0].keys():
                return [{name: Bound(value, module) for name, value in row.items()} for row in rows]
    telling = {place: values for place, values in blocks.items() if wanted <= values.keys()}
    near = [telling[place] for one in (call, *module.above(call)) if (place := module.block_of(one)) in telling]
    return near[:1] or list(telling.values())


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, of in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, of)


def _text(given: ast.expr, module: Module) -> str:
    """Return a message as it stands in the source, what is constant filled in."""
    if isinstance(given, ast.Constant):
        return str(given.value)
    if isinstance(given, ast.JoinedStr):
        return "".join(_text(part, module) for part in given.values)
    if isinstance(given, ast.FormattedValue):
        value = module.value(given.value.id) if isinstance(given.value, ast.Name) else None
        spec = _text(given.format_spec, module) if given.format_spec else ""
        return format(value, spec) if isinstance(value, (str, int)) else GAP
    if isinstance(given, ast.BinOp):
        return _text(given.left, module) + _text(given.right, module)
    value = module.value(given.id) if isinstance(given, ast.Name) else None
    return value if isinstance(value, str) else GAP


def _unseen(node: ast.AST, module: Module, what: str) -> Unseen:
    line = getattr(node, "lineno", 0)
    return Unseen(f"{module.place}:{line} {what}: scripts/refusals.py can't tell which codes there are")
