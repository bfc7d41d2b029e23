"""The file of deployments: prefect.yaml, or the file in CARREL_FLOWS_DEPLOYMENTS, without any credential."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_type_hints
from uuid import UUID

import yaml
from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)

from carrel.wire.fields import must, must_fit
from carrel.wire.sources import holds_credential
from flows.errors import DeploymentsError
from flows.runs import DEPLOYMENT, Label, tag_of_this_machine
from flows.settings import SHIPPED

Place = tuple[str | int, ...]
"""The path of a value: keys of objects and indexes of lists, from the outside in."""


def _parse_yaml(text: str) -> tuple[object, Sequence[tuple[Place, int]]]:
    """Return the value of a YAML text, and each place with its line number. Raises YAMLError."""
    node = cast("yaml.Node | None", yaml.compose(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - the stubs say nothing
    return cast("object", yaml.safe_load(text)), list(_places(node))


def _places(node: yaml.Node | None, place: Place = ()) -> Iterator[tuple[Place, int]]:
    children: Iterable[tuple[str | int, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        children = ((str(key.value), key, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        children = ((index, value, value) for index, value in enumerate(node.value))
    for key, begins, value in children:
        yield (*place, key), begins.start_mark.line + 1
        yield from _places(value, (*place, key))


AnyFlow = Flow[Any, Any]
Mistake = tuple[Place, str]


def _load_flow(entrypoint: object) -> object:
    """Import the flow `module.name`. Raises ValueError when it can't be imported, or is not a flow."""
    module, _, name = str(entrypoint).rpartition(".")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as exc:
        raise ValueError(f"{entrypoint} cannot be imported ({exc})") from exc
    if not isinstance(found, Flow):
        msg = f"{entrypoint} is not a flow; write a flow like flows.bulk_upload.bulk_upload"
        raise ValueError(msg)  # noqa: TRY004 - what a validator may raise
    return cast("AnyFlow", found)


def _none_as(kind: Callable[[], object]) -> BeforeValidator:
    """Return a validator that reads None as empty: YAML gives None for a key with only comments below."""
    return BeforeValidator(lambda value: kind() if value is None else value)


def _refused_by_prefect(member: str) -> AfterValidator:
    def check(value: str) -> str:
        try:
            CronSchedule.model_validate({"cron": "0 0 * * *", member: value})
        except ValidationError as exc:
            raise ValueError(exc.errors()[0]["msg"].removeprefix("Value error, ")) from exc
        return value

    return AfterValidator(check)


class Times(BaseModel):
    """A schedule: minute, hour, day, month and weekday in a time zone. `slug` identifies it within the deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cron: Annotated[str, _refused_by_prefect("cron")]
    timezone: Annotated[str, _refused_by_prefect("timezone")] = "UTC"
    slug: str = "file"
    active: bool = True


# Prefect would store and display credentials.
_NO_CREDENTIAL = must(
    lambda parameters: not holds_credential(str(parameters.get("source") or "")),
    "source: remove credentials and the query from the URL; set them in the serving process's environment",
)
_TOLD_APART = must(
    lambda schedules: len({schedule.slug for schedule in schedules}) == len(schedules),
    "several schedules: each needs its own `slug`",
)


class Entry(BaseModel):
    """A deployment: a flow with parameters. `paused`, and `active` of the schedules, apply only on first creation."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$")]
    flow: Annotated[AnyFlow, BeforeValidator(_load_flow), Field(alias="entrypoint")]
    parameters: Annotated[dict[str, Any], _none_as(dict), _NO_CREDENTIAL] = Field(default_factory=dict[str, Any])
    schedules: Annotated[list[Times], _none_as(list), _TOLD_APART] = Field(default_factory=list[Times])
    paused: bool = False
    description: str | None = None
    tags: list[str] = Field(default_factory=list[str])
    concurrency_limit: int | None = None
    work_pool: dict[str, Any] | None = None

    _leaves_single_runs_alone = must_fit(
        lambda entry: entry.name != DEPLOYMENT or not (entry.parameters or entry.schedules),
        f"`{DEPLOYMENT}` is reserved for single runs, without parameters and schedules; choose another name",
    )


class _File(BaseModel):
    # Required, because a file that is still being written is empty, and an empty list would delete all deployments.
    deployments: list[Any] | None


def read_deployments(path: Path) -> Sequence[Entry]:
    """Return the file's entries, checked against the flows. Raises DeploymentsError, with all mistakes by line."""
    try:
        value, places = _parse_yaml(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise DeploymentsError(f"{path} cannot be read: {exc}") from exc
    except yaml.YAMLError as exc:
        mark, problem = getattr(exc, "problem_mark", None), str(getattr(exc, "problem", None) or exc)
        line = "" if mark is None else f":{mark.line + 1}"
        advice = "Texts that begin with a special character, such as *, need quotes."
        raise DeploymentsError(f"{path}{line}: the file is not valid YAML: {problem}. {advice}") from exc
    try:
        declared = _File.model_validate(value).deployments or []
    except ValidationError as exc:
        msg = f"{path}: a list under `deployments:` is required, as in prefect.yaml ({exc.errors()[0]['msg']})"
        raise DeploymentsError(msg) from exc
    # YAML silently uses the last value of a repeated key.
    repeated = Counter(place for place, _ in places) - Counter({place for place, _ in places})
    wrong: list[Mistake] = [(place, f"{place[-1]} appears twice") for place in repeated.elements()]
    entries: list[Entry] = []
    known = [field.alias or name for model in (Entry, Times) for name, field in model.model_fields.items()]
    for number, members in enumerate(declared):
        place = ("deployments", number)
        try:
            entry = Entry.model_validate(members)
        except ValidationError as exc:
            wrong += _mistakes(exc, place, known=known)
            continue
        if entry.name != DEPLOYMENT:  # a person enters this deployment's parameters at the start
            wrong += _wrong_parameters(entry, (*place, "parameters"))
        if any((item.flow.name, item.name) == (entry.flow.name, entry.name) for item in entries):
            wrong.append(((*place, "name"), "another entry of this flow has this name"))
        entries.append(entry)
    if wrong:
        raise DeploymentsError(
            "\n".join(_explain(path, declared, dict(places), place, message) for place, message in wrong)
        )
    return entries


def read_served(path: Path) -> Sequence[Entry]:
    """Return a file's entries, and Carrel's own entry for single runs of each other flow. Raises DeploymentsError."""
    entries = read_deployments(path)
    startable = {entry.flow.name for entry in entries if entry.name == DEPLOYMENT}
    own = read_deployments(SHIPPED) if path != SHIPPED else ()
    return [*entries, *(item for item in own if item.name == DEPLOYMENT and item.flow.name not in startable)]


def _wrong_parameters(entry: Entry, place: Place) -> Iterator[Mistake]:
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
        options = [item for item in (hint, *get_args(hint)) if isinstance(item, type) and issubclass(item, BaseModel)]
        yield from _mistakes(exc, place, known=[*fields, *(name for option in options for name in option.model_fields)])


def _mistakes(error: ValidationError, place: Place, *, known: Iterable[str]) -> Iterator[Mistake]:
    for item in error.errors(include_url=False, include_input=False):
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            message = "required, but missing"
        elif item["type"] == "string_pattern_mismatch":
            message = "a name has at most 100 small letters, digits and hyphens, with no hyphen at an end"
        elif item["type"] == "extra_forbidden":
            alike = get_close_matches(str(item["loc"][-1]), known, n=1)
            message = "".join(["unknown member", *(f"; did you mean `{name}`?" for name in alike)])
        yield (*place, *item["loc"]), message


def _explain(path: Path, declared: Sequence[object], lines: Mapping[Place, int], place: Place, message: str) -> str:
    parts = [f"{path}:{next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), 1)}"]
    if len(place) > 1 and place[0] == "deployments":
        number, member = int(place[1]), ".".join(map(str, place[2:]))
        entry = declared[number]
        name = cast("dict[str, object]", entry).get("name") if isinstance(entry, dict) else None
        parts += [str(name or f"entry {number + 1}"), *([member] if member else [])]
    return ": ".join([*parts, message])


TAG = "carrel-deployments-file"
"""Marks deployments registered from a file; removing the entry removes the deployment."""

_PAGE = 200

_one_at_a_time = asyncio.Lock()


async def register(entries: Sequence[Entry], *, runner: Runner) -> list[str]:
    """Register the entries, and delete other deployments that were registered from a file; return the deleted names.
    Schedules made, paused or resumed by people stay so. Machines that share a Prefect server must serve equal files."""
    async with _one_at_a_time, get_client() as client:
        kept = {await _register(entry, client, runner=runner) for entry in entries}
        gone = [old for old in await _read_registered(client) if old.id not in kept]
        for old in gone:
            await client.delete_deployment(old.id)
    return [old.name for old in gone]


async def _register(entry: Entry, client: PrefectClient, *, runner: Runner) -> UUID:
    """Register an entry, and delete the schedules that it no longer has; return the deployment's id."""
    try:
        old = await client.read_deployment_by_name(f"{entry.flow.name}/{entry.name}")
    except ObjectNotFound:
        old = None
    deployment = await entry.flow.ato_deployment(
        entry.name,
        parameters=entry.parameters,
        schedules=_schedules(entry, old),
        paused=entry.paused if old is None else old.paused,
        description=entry.description,
        tags=[TAG, tag_of_this_machine(), *entry.tags],
        concurrency_limit=entry.concurrency_limit,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    deployment_id = await runner.aadd_deployment(deployment)
    wanted = {times.slug for times in entry.schedules}
    for schedule in (await client.read_deployment(deployment_id)).schedules:
        if schedule.slug not in wanted and Label.of(schedule.slug) is None:
            await client.delete_deployment_schedule(deployment_id, schedule.id)
    return deployment_id


def _schedules(entry: Entry, old: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    active = {item.slug: item.active for item in (old.schedules if old else ())}
    return [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=times.cron, timezone=times.timezone),
            slug=times.slug,
            active=active.get(times.slug, times.active),
        )
        for times in entry.schedules
    ]


async def _read_registered(client: PrefectClient) -> list[DeploymentResponse]:
    found: list[DeploymentResponse] = []
    tagged, order = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])), DeploymentSort.NAME_ASC
    while page := await client.read_deployments(deployment_filter=tagged, sort=order, limit=_PAGE, offset=len(found)):
        found += page
    return found
