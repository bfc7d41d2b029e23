"""`python -m scripts.write_resources`: write the SDK's resources from the operations that `carrel.wire` declares.

`resources.toml` names the modules, their classes, and which operations each class has. The rest comes from the
declarations: a method has the text under its operation as its documentation and the members of the request as its
parameters. An operation without a text gets no method: `carrel.resources._by_hand` has the methods that need code.
"""

import ast
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import AwareDatetime, BaseModel
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from carrel.wire import api
from carrel.wire.access import ResourceFilters
from carrel.wire.admin import UserFilters
from carrel.wire.common import Action, PagedResponse, PrincipalReference, ResourceReference
from carrel.wire.operations import ApiOperation
from carrel.wire.oversight import Bucket

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "client" / "carrel" / "resources"
TABLE = Path(__file__).with_name("resources.toml")
DEFAULTS: Mapping[str, object] = {"action": Action.READ, "bucket": Bucket.DAY, "page_size": 100, "principals": []}
"""Defaults of parameters, in place of a member's own unless that is None."""
FLATTENED = frozenset({"message_feedback", "search_options"})
"""The members of requests in whose place their own members are parameters."""
RAW = "The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."
METHODS = {"conversations": "list", "conversations/{conversationId}": "get"}
"""Methods with another name than the last part of the operation's path."""
FILTERS: Mapping[str, type[BaseModel]] = {"ResourceFilters": ResourceFilters, "UserFilters": UserFilters}
"""Models whose members a method takes as those of a TypedDict with the same name."""
CONNECT = "carrel._connect"
ARGUMENTS, BY_HAND = "carrel.resources._arguments", "carrel.resources._by_hand"
MODULES = {
    **dict.fromkeys(("Iterable", "Mapping", "Sequence"), "collections.abc"),
    **dict.fromkeys(("Any", "Literal", "TypeAlias", "TypeVar", "TypedDict", "Unpack", "cast"), "typing"),
    **dict.fromkeys(("Id", "Members", "as_any", "as_list", "reference_to", "require_id"), ARGUMENTS),
    **dict.fromkeys(("DownloadOperation", "ListOperation", "Operation", "Raw", "Resource"), "carrel._operations"),
    **dict.fromkeys(("PrincipalReference", "ResourceIdentifier"), "carrel.wire.common"),
    "Call": "carrel._calls",
    "Listing": "carrel._pages",
    "SecretStr": "pydantic",
    "cached_property": "functools",
}
"""The modules of names that the resources import, beside those of models and enums."""


class Declaration(NamedTuple):
    """An operation, and where the wire declares it, with which text."""

    operation: ApiOperation[Any, Any]
    module: str
    constant: str
    text: str


class Parameter(NamedTuple):
    """A parameter of a method, as code, and the value that a request gets from it."""

    name: str
    annotation: str
    default: str | None
    value: str

    def __str__(self) -> str:
        return f"{self.name}: {self.annotation}{'' if self.default is None else f' = {self.default}'}"


class Imports:
    """The names that a module imports."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = defaultdict(set)

    def name(self, name: str, module: str | None = None) -> str:
        """Import a name, and return it."""
        self._names[module or MODULES[name]].add(name)
        return name

    def type(self, kind: type) -> str:
        """Import a type unless it is built in, and return its name."""
        name, module = kind.__name__, kind.__module__
        return name if module == "builtins" else self.name(name, None if name in MODULES else module)

    def __str__(self) -> str:
        return "".join(f"from {module} import {', '.join(names)}\n" for module, names in self._names.items())


def declarations() -> Iterator[Declaration]:
    """Find the operations with a text under them, in the order of their declaration."""
    for module in api.MODULES:
        for statement, after in itertools.pairwise(ast.parse(inspect.getsource(module)).body):
            match statement, after:
                case (
                    ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if isinstance(operation := getattr(module, name), ApiOperation):
                    declared = cast("ApiOperation[Any, Any]", operation)
                    yield Declaration(declared, module.__name__, name, inspect.cleandoc(text))
                case _:
                    pass


def generate() -> dict[Path, str]:
    """Return the text of each file, by its path; raises LookupError for an operation that no class has."""
    table: Mapping[str, Any] = tomllib.loads(TABLE.read_text())
    classes = [entry for module in table.values() for entry in module["class"]]
    # The first pattern that matches a path counts, so a narrow pattern stands before a wide one.
    operations: dict[str, list[Declaration]] = {entry["operations"]: [] for entry in classes if "operations" in entry}
    for declaration in declarations():
        path = declaration.operation.path
        pattern = next((pattern for pattern in operations if fnmatchcase(path, pattern)), None)
        if pattern is None:
            msg = f"{TABLE.name} has no class for {path}"
            raise LookupError(msg)
        operations[pattern].append(declaration)
    texts = {FOLDER / place: _module(module, operations) for place, module in table.items()}
    return {path: _format(text) for path, text in {**texts, FOLDER / "_choices.py": _choices()}.items()}


def _module(module: Mapping[str, Any], operations: Mapping[str, list[Declaration]]) -> str:
    imports = Imports()
    entries, filters = module["class"], module.get("filters", {})
    classes = [_filters(FILTERS[name], text, imports) for name, text in filters.items()]
    classes += [_class(entry, operations.get(entry.get("operations", ""), []), imports) for entry in entries]
    parts = [place.rpartition(".")[2] for entry in entries for _, place, _ in entry.get("parts", [])]
    exported = sorted([*filters, *parts, *(entry["name"] for entry in entries)])
    mode = f'M = {imports.name("TypeVar")}("M")'
    return _file(module["text"], imports, [mode, *classes, f"__all__ = {exported}"])


def _filters(model: type[BaseModel], text: str, imports: Imports) -> str:
    """Return the type of the filters that methods take by name; a list has to be a sequence, as nothing copies it."""
    given = [_parameter(name, field, imports) for name, field in model.model_fields.items()]
    members = [f"{one.name}: {one.annotation.replace('Iterable', imports.name('Sequence'))}" for one in given]
    head = f"class {model.__name__}({imports.name('TypedDict')}, total=False)"
    return f"{head}:\n{_indent([_documentation(text), *members])}"


def _class(entry: Mapping[str, Any], operations: Iterable[Declaration], imports: Imports) -> str:
    name = entry["name"]
    base = imports.name(entry["by_hand"], BY_HAND) if "by_hand" in entry else imports.name("Resource")
    members = [_documentation(entry["text"])]
    if "operations" in entry:
        head = f'with_raw_response(self) -> "{name}[{imports.name("Raw")}[M]]"'
        members.append(_function("property", head, RAW, f"return {name}(self._session.as_raw())"))
    decorator = imports.name("cached_property") if "cached" in entry else "property"
    for part, place, text in entry.get("parts", []):
        module, _, kind = place.rpartition(".")
        imports.name(kind, f"carrel.resources.{module}")
        members.append(_function(decorator, f"{part}(self) -> {kind}[M]", text, f"return {kind}(self._session)"))
    members += [_method(declaration, imports) for declaration in operations]
    return f"class {name}({base}[M]):\n{_indent(members)}"


def _method(declaration: Declaration, imports: Imports) -> str:
    operation, answer = declaration.operation, declaration.operation.answer
    request = cast("type[BaseModel]", operation.request)
    filters = next((model for model in FILTERS.values() if issubclass(request, model)), BaseModel)
    members = [(name, field) for name, field in _members(request) if name not in filters.model_fields]
    parameters = {name: _parameter(name, field, imports) for name, field in members}
    in_path = {name: to_snake(name) for name in re.findall(r"{(\w+)}", operation.path)}
    parameters |= {name: Parameter(name, imports.name("Id"), None, name) for name in in_path.values()}
    required = [name for name in request.model_fields if name in parameters and parameters[name].default is None]
    first = [*in_path.values(), *(required if operation.by_position is None else operation.by_position)]
    named = [str(parameters[name]) for name in dict.fromkeys([*required, *parameters]) if name not in first]
    # What these two say is for the descriptor, which takes them away (carrel._operations).
    named += [f"timeout: {imports.name('MaybeTimeout', CONNECT)} = {imports.name('UNCHANGED', CONNECT)}"]
    named += [f"headers: {imports.name('Mapping')}[str, str] | None = None"]
    signature = ["self", *(str(parameters[name]) for name in first), "*", *named]
    if filters is not BaseModel:
        signature.append(f"**filters: {imports.name('Unpack')}[{filters.__name__}]")
    places = [f'"{name}": {imports.name("require_id")}("{given}", {given})' for name, given in in_path.items()]
    values = f", values={{{', '.join(places)}}}" if places else ""
    sent = f"{imports.name(declaration.constant, declaration.module)}, request"
    if inspect.isclass(answer) and issubclass(answer, PagedResponse):
        kind, sending = "ListOperation", f"Listing({sent}, lambda page: page.{answer.rows_in}{values})"
        rows = " | ".join(map(imports.type, _alternatives(answer.row_type())))
        result = f"{imports.name('Listing')}[{rows}, {imports.type(answer)}]"
    else:
        kind, sending = "DownloadOperation" if answer is None else "Operation", f"Call({sent}{values})"
        model = imports.name("Any") if answer is None else imports.type(cast("type", answer))
        result = f"{imports.name('Call')}[{model}]"
    name = METHODS.get(operation.path) or to_snake(operation.path.rpartition("/")[2])
    head = f"{name}({', '.join(signature)}) -> {result}"
    body = f"request = {_request(request, parameters, imports)}\nreturn {sending}"
    return _function(imports.name(kind), head, declaration.text, body)


def _members(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Find the members that are parameters: those of the request itself, then those of its bases."""
    names = [name for base in model.__mro__ for name in inspect.get_annotations(base) if name in model.model_fields]
    for name in dict.fromkeys(names):
        field = model.model_fields[name]
        if name in FLATTENED:
            yield from _members(cast("type[BaseModel]", field.annotation))
        else:
            yield name, field


def _request(model: type[BaseModel], parameters: Mapping[str, Parameter], imports: Imports) -> str:
    """Return the expression that makes a request of the parameters, and of the filters where it has such."""
    values = []
    if issubclass(model, tuple(FILTERS.values())):
        values.append(f"**{imports.name('as_any')}(dict[str, {imports.name('Any')}], filters)")
    for name, field in model.model_fields.items():
        if name in parameters:
            values.append(f"{name}={parameters[name].value}")
        elif name in FLATTENED:
            values.append(f"{name}={_request(cast('type[BaseModel]', field.annotation), parameters, imports)}")
    return f"{imports.type(model)}({', '.join(values)})"


def _parameter(name: str, field: FieldInfo, imports: Imports) -> Parameter:
    kinds, given = _alternatives(field.annotation), name
    default = field.get_default(call_default_factory=True)
    default = default if default is None else DEFAULTS.get(name, default)
    if isinstance(default, BaseModel):
        given, default, kinds = f"{name} or {imports.type(type(default))}()", None, [*kinds, NoneType]
    annotation, value = _convert([kind for kind in kinds if kind is not NoneType], given, imports)
    if NoneType in kinds:
        annotation = f"{annotation} | None"
        value = f"None if {name} is None else {value}" if value.startswith(("dict", "[")) else value
    return Parameter(name, annotation, None if default is PydanticUndefined else _code(default, imports), value)


def _convert(kinds: list[Any], given: str, imports: Imports) -> tuple[str, str]:
    """Return the type of a parameter, which is wider than the member's, and the member's value from what is given."""
    kind, name = kinds[0], imports.name
    if kinds == PRINCIPALS:
        annotation = f"{name('PrincipalReference')} | {name('Members')}"
        value = f'{name("cast")}("PrincipalReference", {given})'
    elif get_origin(kind) is list:
        annotation, value = _convert_list(_alternatives(get_args(kind)[0]), given, imports)
    elif get_origin(kind) is dict:
        annotation, value = f"{name('Mapping')}[str, str]", f"dict({given})"
    elif kind is ResourceReference:
        annotation = f"{imports.type(kind)} | {name('ResourceIdentifier')} | {name('Members')}"
        value = f"{name('reference_to')}({given})"
    elif kind in {str, bool, int, float}:
        annotation, value = kind.__name__, given
    else:
        annotation, value = _wider(kind, imports), f"{name('as_any')}({imports.type(kind)}, {given})"
    return annotation, value


def _convert_list(items: list[Any], given: str, imports: Imports) -> tuple[str, str]:
    annotation, item = _convert(items, "each", imports)
    as_list = imports.name("as_list")
    if items == PRINCIPALS:
        value = f"{imports.name('as_any')}(list[PrincipalReference], {as_list}(object, {given}))"
    elif items == [ResourceReference]:
        value = f"[{item} for each in {given}]"
    else:
        value = f"{as_list}({imports.type(items[0])}, {given})"
    return f"{imports.name('Iterable')}[{annotation}]", value


def _wider(kind: type, imports: Imports) -> str:
    """Return the type of what a model converts to a member's type, beside that type."""
    if kind is UUID:
        return imports.name("Id")
    if issubclass(kind, StrEnum):
        return imports.name(f"Any{kind.__name__}", "carrel.resources._choices")
    return f"{imports.type(kind)} | {imports.name('Members') if issubclass(kind, BaseModel) else 'str'}"


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, or the type alone, without what only checks a value."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return [one for part in get_args(kind) for one in _alternatives(part)]
    return [datetime if kind is AwareDatetime else kind]


PRINCIPALS = _alternatives(PrincipalReference)


def _code(default: object, imports: Imports) -> str:
    """Return a default as code."""
    if isinstance(default, StrEnum):
        return f"{imports.type(type(default))}.{default.name}"
    return "()" if default == [] else repr(default)


def _choices() -> str:
    """Return the module of the types that take a member of an enum or its text."""
    imports = Imports()
    requests = [operation.request for operation in api.OPERATIONS.values() if operation.request]
    kinds = {kind for request in requests for _, field in _members(request) for kind in _alternatives(field.annotation)}
    kinds |= {item for kind in kinds if get_origin(kind) is list for item in _alternatives(get_args(kind)[0])}
    enums = sorted((kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, StrEnum)), key=imports.type)
    text = "Types of arguments for enums: a member, or the member's text."
    alias, literal = imports.name("TypeAlias"), imports.name("Literal")
    aliases = [f"Any{enum.__name__}: {alias} = {enum.__name__} | {literal}{[*map(str, enum)]}" for enum in enums]
    return _file(text, imports, aliases)


def _file(text: str, imports: Imports, members: Iterable[str]) -> str:
    return "\n".join(["# Generated by scripts/write_resources.py", _documentation(text), str(imports), *members])


def _function(decorator: str, head: str, text: str, body: str) -> str:
    return f"@{decorator}\ndef {head}:\n{_indent([_documentation(text), body])}"


def _documentation(text: str) -> str:
    text = text.strip()
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _indent(members: Iterable[str]) -> str:
    return textwrap.indent("\n".join(members), "    ") + "\n"


def _format(code: str) -> str:
    """Return a module as ruff leaves it: its imports sorted, and those of no use gone."""
    for command in (["check", "--select", "F401,I", "--fix-only", "--quiet"], ["format", "--quiet"]):
        program = [sys.executable, "-m", "ruff", *command, "-"]
        code = subprocess.run(  # noqa: S603 - ruff, with arguments from here
            program, input=code, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return code


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text)
