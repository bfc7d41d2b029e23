"""The file of deployments: each entry is a flow with a source, and the times at which it runs.

`flows/deployments.yaml`, or the file that CARREL_FLOWS_DEPLOYMENTS names, shows what an entry may have. It has no
credential: flows take those from the environment.
"""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

from prefect import Flow
from prefect.client.schemas.schedules import CronSchedule
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
    field_validator,
)

from flows.errors import DeploymentsError
from flows.marked_yaml import InvalidYamlError, Marked, Place, load
from flows.mistakes import Mistake, entry_mistakes, parameter_mistakes, suggestion
from flows.operations.sources.addresses import holds_credential
from flows.runs import DEPLOYMENT

AnyFlow = Flow[Any, Any]
T = TypeVar("T")
GIVEN = ("source", "collection")
"""The members that go to a flow, as a parameter or an option of that name."""

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$")]


def _replace_empty(value: T | None) -> T | dict[str, object]:
    """Return an empty mapping for None: a key with only comments below it means the same as an empty one."""
    return {} if value is None else value


class Entry(BaseModel):
    """One deployment.

    `source` and `collection` are passed to the flow's parameter of that name, or to the option if it has none; without
    `cron` the entry runs when somebody starts it. `paused` counts only for a new deployment: later, people decide.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _Name
    flow: str
    source: Annotated[str, StringConstraints(min_length=1)] | None = None
    collection: Annotated[str, StringConstraints(min_length=1)] | None = None
    cron: str | None = None
    timezone: str = "UTC"
    paused: bool = False
    options: Annotated[dict[str, Any], BeforeValidator(_replace_empty)] = Field(default_factory=dict[str, Any])

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name == DEPLOYMENT:
            msg = f"{DEPLOYMENT} is what single runs are started by; take another name"
            raise ValueError(msg)
        return name

    @field_validator("source")
    @classmethod
    def _holds_no_credential(cls, source: str | None) -> str | None:
        """Refuse a source with a credential: Prefect keeps and shows a deployment's parameters."""
        if holds_credential(source or ""):
            msg = (
                "credentials and queries don't go into a source's URL; leave them in the serving process's environment"
            )
            raise ValueError(msg)
        return source

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str | None) -> str | None:
        if cron is not None:
            _check(cron=cron)
        return cron

    @field_validator("timezone")
    @classmethod
    def _is_timezone(cls, timezone: str) -> str:
        _check(timezone=timezone)
        return timezone

    @property
    def schedule(self) -> CronSchedule | None:
        """The times at which the entry runs by itself, if any."""
        return None if self.cron is None else CronSchedule(cron=self.cron, timezone=self.timezone)

    def parameters(self, flow: AnyFlow) -> dict[str, Any]:
        """Return the parameters to call the flow with. Raises pydantic's ValidationError."""
        given = {name: value for name in GIVEN if (value := getattr(self, name)) is not None}
        return _parameters(flow, given=given, options=self.options)


def _parameters(flow: AnyFlow, *, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    model = _parameters_of(flow)
    taken = model.model_fields
    parameters = {name: value for name, value in given.items() if name in taken}
    rest = {**options, **{name: value for name, value in given.items() if name not in taken}}
    if "options" not in taken:
        parameters |= rest
    elif rest or taken["options"].is_required():
        parameters["options"] = rest
    model.model_validate(parameters)
    return parameters


def _parameters_of(flow: AnyFlow) -> type[BaseModel]:
    """Return a model of the flow's parameters, whose errors have the position of each."""
    hints = get_type_hints(flow.fn)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in signature(flow.fn).parameters.items()
    }
    return create_model("Parameters", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)


def _options_of(flow: AnyFlow) -> list[str]:
    """Return the names of the flow's options, without those that are members of an entry."""
    hint = get_type_hints(flow.fn).get("options")
    models = [one for one in (hint, *get_args(hint)) if isinstance(one, type) and issubclass(one, BaseModel)]
    return [name for model in models for name in model.model_fields if name not in GIVEN]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # Not left out, since a file that is just being written is empty, and would end everything that is registered.
    deployments: list[Any] | None


def read_deployments(path: Path, *, flows: Mapping[str, AnyFlow]) -> Sequence[Entry]:
    """Return the file's entries, checked against the flows they name.

    Raises DeploymentsError with everything that is wrong, by line and entry.
    """
    try:
        marked = load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"{path} can't be read: {exc}"
        raise DeploymentsError(msg) from exc
    except InvalidYamlError as exc:
        line = f":{exc.line}" if exc.line else ""
        msg = (
            f"{path}{line}: this is no YAML: {exc}. Texts that begin with a special character, such as *, need quotes."
        )
        raise DeploymentsError(msg) from exc
    wrong = [(place, f"{place[-1]} stands there twice") for place in marked.repeated]
    entries: list[Entry] = []
    names: set[str] = set()
    for number, members in enumerate(_members(path, marked)):
        entry, mistakes = _read(members, flows=flows, names=names)
        wrong += [(("deployments", number, *place), words) for place, words in mistakes]
        entries += [entry] if entry else []
    if wrong:
        raise DeploymentsError("\n".join(_explain(path, marked, place, message) for place, message in wrong))
    return entries


def _members(path: Path, marked: Marked) -> list[Any]:
    try:
        return _File.model_validate(marked.value).deployments or []
    except ValidationError as exc:
        msg = f"{path}: it has one list, under `deployments:`, and nothing else ({exc.errors()[0]['msg']})"
        raise DeploymentsError(msg) from exc


def _read(members: object, *, flows: Mapping[str, AnyFlow], names: set[str]) -> tuple[Entry | None, Sequence[Mistake]]:
    """Return an entry, or all its mistakes; `names` are those of the entries before it, and its own is added."""
    if not isinstance(members, dict):
        return None, [((), "an entry has members, each as `name: value`")]
    raw = cast("dict[str, Any]", members)
    flow = flows.get(raw["flow"]) if isinstance(raw.get("flow"), str) else None
    mistakes: list[Mistake] = []
    entry = None
    try:
        entry = Entry.model_validate(raw)
    except ValidationError as exc:
        known = _options_of(flow) if flow else []
        mistakes += entry_mistakes(exc, members=list(Entry.model_fields), options=known)
    mistakes += _of_all(raw, flows=flows, names=names)
    if flow is not None:
        said = {place[:1] for place, _ in mistakes if place}
        mistakes += [one for one in _of_parameters(raw, flow) if one not in mistakes and one[0][:1] not in said]
    return (None if mistakes else entry), mistakes


def _of_all(raw: Mapping[str, Any], *, flows: Mapping[str, AnyFlow], names: set[str]) -> Iterator[Mistake]:
    """Yield the mistakes of an entry's name, flow, and unknown members."""
    name, flow = raw.get("name"), raw.get("flow")
    if isinstance(name, str):
        if name in names:
            yield ("name",), "another entry has this name"
        names.add(name)
    if isinstance(flow, str) and flow not in flows:
        yield ("flow",), f"there is no flow {flow}; there are {', '.join(sorted(flows))}{suggestion(flow, flows)}"


def _of_parameters(raw: Mapping[str, Any], flow: AnyFlow) -> list[Mistake]:
    """Return the mistakes of the parameters of an entry, which may have other mistakes as well."""
    given = {name: value for name in GIVEN if (value := raw.get(name)) is not None}
    options: object = raw.get("options") or {}
    if not isinstance(options, dict):
        return []
    try:
        _parameters(flow, given=given, options=cast("dict[str, Any]", options))
    except ValidationError as exc:
        members, known = list(Entry.model_fields), _options_of(flow)
        return list(parameter_mistakes(exc, flow=flow.name, given=list(given), members=members, options=known))
    return []


def _explain(path: Path, marked: Marked, place: Place, message: str) -> str:
    """Return `file:line: entry: member: what is wrong`."""
    parts = [f"{path}:{marked.line_of(place)}"]
    if len(place) > 1:
        number, member = int(place[1]), ".".join(map(str, place[2:]))
        entry = cast("dict[str, list[object]]", marked.value)["deployments"][number]
        name = cast("dict[str, object]", entry).get("name") if isinstance(entry, dict) else None
        parts += [str(name or f"entry {number + 1}"), *([member] if member else [])]
    return ": ".join([*parts, message])


def _check(*, cron: str = "0 0 * * *", timezone: str = "UTC") -> None:
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as exc:
        raise ValueError(exc.errors()[0]["msg"].removeprefix("Value error, ")) from exc
