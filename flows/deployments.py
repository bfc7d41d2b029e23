"""The file that declares what runs: prefect.yaml, which `python -m flows serve` follows and `prefect deploy` takes.

CARREL_FLOWS_DEPLOYMENTS names another one. `serve` takes of an entry what Entry has, as it stands, without Prefect's
templates. The file holds no credential: flows take those from the environment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Self, cast, get_args, get_type_hints

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
    model_validator,
)

from carrel.wire.sources import holds_credential
from flows.errors import DeploymentsError
from flows.marked_yaml import InvalidYamlError, Marked, Place, load
from flows.run_status import DEPLOYMENT
from flows.settings import SHIPPED

AnyFlow = Flow[Any, Any]
Mistake = tuple[Place, str]
"""Where in the file, and what is wrong there."""

_REMOVED = {
    "flows.quarantine.quarantine": "the service keeps what could not be loaded, and the page Ingestion shows it",
}
"""The flows of earlier versions, and what is there in place of each."""


def _load_flow(entrypoint: object) -> object:
    """Return the flow that `package.module.function` names."""
    if (instead := _REMOVED.get(str(entrypoint))) is not None:
        msg = f"{entrypoint} is no more: {instead}. Remove this entry"
        raise ValueError(msg)
    module, _, name = str(entrypoint).rpartition(".")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as exc:
        msg = f"{entrypoint} can't be imported ({exc})"
        raise ValueError(msg) from exc
    if not isinstance(found, Flow):
        msg = f"{entrypoint} is no flow; a flow is named as flows.bulk_upload.bulk_upload is"
        raise ValueError(msg)  # noqa: TRY004 - what a validator may raise
    return cast("AnyFlow", found)


def _none_as(kind: Callable[[], object]) -> BeforeValidator:
    """Return a validator that takes None as empty: a key with only comments below it means the same as an empty one."""
    return BeforeValidator(lambda value: kind() if value is None else value)


class Times(BaseModel):
    """When a deployment runs: minute, hour, day, month and weekday in a time zone. `slug` tells its times apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cron: str
    timezone: str = "UTC"
    slug: str = "file"
    active: bool = True

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str) -> str:
        _check(cron=cron)
        return cron

    @field_validator("timezone")
    @classmethod
    def _is_timezone(cls, timezone: str) -> str:
        _check(timezone=timezone)
        return timezone


class Entry(BaseModel):
    """One deployment: a flow with its parameters; without `schedules` it runs when somebody starts it.

    `paused`, and `active` of its times, are for the first time: later they stay as people set them. `work_pool` is for
    `prefect deploy`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$")]
    flow: Annotated[AnyFlow, BeforeValidator(_load_flow), Field(alias="entrypoint")]
    parameters: Annotated[dict[str, Any], _none_as(dict)] = Field(default_factory=dict[str, Any])
    schedules: Annotated[list[Times], _none_as(list)] = Field(default_factory=list[Times])
    paused: bool = False
    description: str | None = None
    tags: list[str] = Field(default_factory=list[str])
    concurrency_limit: int | None = None
    work_pool: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_the_present_form(cls, members: object) -> object:
        """Refuse an entry of the form that files had before prefect.yaml, and say what becomes of its members."""
        if isinstance(members, dict) and "flow" in members and "entrypoint" not in members:
            msg = (
                "this is the form of an earlier version. `flow: bulk-upload` becomes `entrypoint:"
                " flows.bulk_upload.bulk_upload`; `source` moves into `parameters:`, `collection` and `options` into"
                " `parameters: {options: …}`; `cron` and `timezone` into an entry of `schedules:`."
                " docs/schedules.md has examples"
            )
            raise ValueError(msg)
        return cast("object", members)

    @field_validator("parameters")
    @classmethod
    def _holds_no_credential(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Refuse what Prefect would keep, and show to whoever sees it."""
        if holds_credential(str(parameters.get("source") or "")):
            msg = "source: credentials and queries don't go into a URL; leave them in the serving process's environment"
            raise ValueError(msg)
        return parameters

    @field_validator("schedules")
    @classmethod
    def _are_told_apart(cls, schedules: list[Times]) -> list[Times]:
        if len({one.slug for one in schedules}) < len(schedules):
            msg = "of several, each needs a `slug` of its own"
            raise ValueError(msg)
        return schedules

    @model_validator(mode="after")
    def _leaves_single_runs_alone(self) -> Self:
        if self.name == DEPLOYMENT and (self.parameters or self.schedules):
            msg = f"people start single runs by `{DEPLOYMENT}`, without parameters and schedules; take another name"
            raise ValueError(msg)
        return self


class _File(BaseModel):
    # Not left out, since a file that is just being written is empty, and would end everything that is registered.
    deployments: list[Any] | None


def read_deployments(path: Path) -> Sequence[Entry]:
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
    wrong: list[Mistake] = [(place, f"{place[-1]} stands there twice") for place in marked.repeated]
    entries: list[Entry] = []
    for number, members in enumerate(_members(path, marked)):
        place = ("deployments", number)
        try:
            entry = Entry.model_validate(members)
        except ValidationError as exc:
            wrong += _mistakes(exc, place, known=[*_names_of(Entry), *_names_of(Times)])
            continue
        if entry.name != DEPLOYMENT:  # to that one, who starts it gives the parameters
            wrong += _wrong_parameters(entry, (*place, "parameters"))
        if any((one.flow.name, one.name) == (entry.flow.name, entry.name) for one in entries):
            wrong.append(((*place, "name"), "another entry of this flow has this name"))
        entries.append(entry)
    if wrong:
        raise DeploymentsError("\n".join(_explain(path, marked, place, message) for place, message in wrong))
    return entries


def read_served(path: Path) -> Sequence[Entry]:
    """Return a file's entries, with those of Carrel's own prefect.yaml by which people start single runs.

    A file of somebody's own needs no `carrel` entries, then, and has those of a later version as well. Raises
    DeploymentsError as `read_deployments` does.
    """
    entries = read_deployments(path)
    startable = {entry.flow.name for entry in entries if entry.name == DEPLOYMENT}
    own = read_deployments(SHIPPED) if path != SHIPPED else ()
    return [*entries, *(one for one in own if one.name == DEPLOYMENT and one.flow.name not in startable)]


def _members(path: Path, marked: Marked) -> list[Any]:
    try:
        return _File.model_validate(marked.value).deployments or []
    except ValidationError as exc:
        msg = f"{path}: it has a list under `deployments:`, as Prefect's prefect.yaml does ({exc.errors()[0]['msg']})"
        raise DeploymentsError(msg) from exc


def _wrong_parameters(entry: Entry, place: Place) -> Iterator[Mistake]:
    """Yield what the flow can't be called with."""
    hints = get_type_hints(entry.flow.fn)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in signature(entry.flow.fn).parameters.items()
    }
    model = create_model("Parameters", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields)
    try:
        model.model_validate(entry.parameters)
    except ValidationError as exc:
        hint = hints.get("options")
        options = [one for one in (hint, *get_args(hint)) if isinstance(one, type) and issubclass(one, BaseModel)]
        yield from _mistakes(exc, place, known=[*fields, *(name for one in options for name in one.model_fields)])


def _names_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _mistakes(error: ValidationError, place: Place, *, known: Iterable[str]) -> Iterator[Mistake]:
    for one in error.errors(include_url=False, include_input=False):
        message = one["msg"].removeprefix("Value error, ")
        if one["type"] == "missing":
            message = "it is missing"
        elif one["type"] == "string_pattern_mismatch":
            message = "a name is of small letters, digits and hyphens, 100 at most, with no hyphen at an end"
        elif one["type"] == "extra_forbidden":
            message = "there is no such member"
            message += "".join(
                f"; did you mean `{name}`?" for name in get_close_matches(str(one["loc"][-1]), known, n=1)
            )
        yield (*place, *one["loc"]), message


def _explain(path: Path, marked: Marked, place: Place, message: str) -> str:
    """Return `file:line: entry: member: what is wrong`."""
    parts = [f"{path}:{marked.line_of(place)}"]
    if len(place) > 1 and place[0] == "deployments":
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
