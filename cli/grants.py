"""`carrel grants`: the roles that people, groups and service accounts hold on documents, collections and agents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import typer

import carrel
from carrel.wire import common
from carrel.wire.admin import Grant, GrantInfo, NamedPrincipal
from carrel.wire.permissions import AuthorizationStep, StepType
from cli.access import WHO, principal_of, resource_of, words_of
from cli.choosing import AsJson, PlanOnly, Yes, confirm
from cli.groups import name_of
from cli.listing import Columns, print_json, show_list
from cli.outcome import connect, usage
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

On = Annotated[
    str,
    typer.Argument(metavar="RESOURCE", help="A document's id, or a type and an id: AGENT:…, DOCUMENT_COLLECTION:…."),
]
Everybody = Annotated[bool, typer.Option("--everybody", help="Everyone in the organization (read access).")]
Who = Annotated[list[str] | None, typer.Argument(metavar="WHO", help=WHO)]

GRANTS: Columns[GrantInfo] = {
    "who": lambda grant: name_of(grant.principal),
    "role": lambda grant: grant.role,
    "id": lambda grant: grant.principal.id,
}


@dataclass(frozen=True)
class Granted:
    """The grants on a resource, the stronger role first if an admin and the owner gave a holder different roles."""

    grants: Sequence[GrantInfo]
    roles: Mapping[common.PrincipalReference, GrantInfo]
    everybody: bool
    version: str | None


@app.command("list")
def list_grants(resource: On, *, as_json: AsJson = False) -> None:
    """List the roles granted on a resource; the owner needs none."""
    with connect(as_json=as_json) as (screen, client):
        granted = read_grants(resource_of(resource), client)
    if granted.everybody:
        screen.line("Everyone in the organization can read it.", style="bold")
    everybody = granted.everybody
    empty = "It has no other roles." if everybody else "Only its owner has a role: carrel grants give …"
    show_list(screen, "grants", granted.grants, GRANTS, empty=empty, organizationWide=everybody)


@app.command()
def give(
    resource: On,
    who: Who = None,
    *,
    role: Annotated[
        common.GrantRole, typer.Option(case_sensitive=False, help="Viewer to read, or editor to read and change.")
    ] = (common.GrantRole.VIEWER),
    everybody: Everybody = False,
    plan_only: PlanOnly = False,
    as_json: AsJson = False,
) -> None:
    """Grant roles on a resource and keep existing grants; a principal with another role gets the new role instead."""
    with connect(as_json=as_json) as (screen, client):
        _check_named(who, screen=screen, everybody=everybody)
        on = resource_of(resource)
        granted, chosen = read_grants(on, client), {name: principal_of(name, client) for name in who or ()}
        changes = ["Everyone in the organization can read it."] if everybody and not granted.everybody else []
        for name, item in chosen.items():
            if (had := granted.roles.get(item)) is None:
                known = client.permissions.explain_authorization(on, item).authorized
                changes.append(f"{name} becomes {role}" + (", and can already read it." if known else "."))
            elif had.role is not role:
                changes.append(f"{name} becomes {role} instead of {had.role}.")
        if changes and not plan_only:
            now = read_grants(on, client)  # a role may have changed since
            given = [Grant(principal=holder, role=role) for holder in chosen.values()]
            grants = _grants_of_others(now, chosen.values()) + given
            client.admin.grants.set(on, grants, organization_wide=now.everybody or everybody, version=now.version)
    screen.lines(changes or ["No changes."])
    _end("given", changes, plan_only=plan_only, screen=screen)


@app.command()
def take(
    resource: On,
    who: Who = None,
    *,
    everybody: Everybody = False,
    plan_only: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Revoke roles on a resource. Shows first the remaining readers, and how they read."""
    with connect(as_json=as_json, yes=yes, plan_only=plan_only) as (screen, client):
        _check_named(who, screen=screen, everybody=everybody)
        on = resource_of(resource)
        granted, chosen = read_grants(on, client), {name: principal_of(name, client) for name in who or ()}
        gone = {str(granted.roles[item].principal.id) for item in chosen.values() if item in granted.roles}
        changes = ["It is no longer open to everyone in the organization."] * (everybody and granted.everybody)
        for name, each in chosen.items():
            if each not in granted.roles:
                screen.say(f"{name} has no role on it.")
                continue
            paths = client.permissions.explain_authorization(on, each).paths
            others = [words_of(path[1]) for path in paths if not _ends(path, gone, closing=everybody)]
            still = f", and can still read it: {'; '.join(dict.fromkeys(others))}" if others else ""
            changes.append(f"{name} is no longer {granted.roles[each].role}{still}.")
        screen.lines(changes or ["No changes."])
        if changes and not plan_only:
            confirm(screen, "Revoke access?", outcome="changed")
            now = read_grants(on, client)  # a role may have been given while the command asked for confirmation
            grants = _grants_of_others(now, chosen.values())
            is_open = now.everybody and not everybody
            client.admin.grants.set(on, grants, organization_wide=is_open, version=now.version)
    _end("taken", changes, plan_only=plan_only, screen=screen)


def _check_named(who: list[str] | None, *, screen: Screen, everybody: bool) -> None:
    if not (who or everybody):
        raise usage(screen, f"Name a person or group. {WHO} Or give --everybody.")


def read_grants(on: common.ResourceReference, client: "carrel.Carrel") -> Granted:
    pages = list(client.admin.grants.list(on, page_size=1000).pages())
    grants = [grant for page in pages for grant in page.grants]
    roles = {_reference(grant.principal): grant for grant in reversed(grants)}
    return Granted(grants, roles, any(page.organization_wide for page in pages), pages[0].version)


def _reference(item: NamedPrincipal) -> common.PrincipalReference:
    if item.type == "user":
        return common.UserReference(email=item.email)
    return common.GroupReference(id=item.id) if item.type == "group" else common.ServiceAccountReference(id=item.id)


def _grants_of_others(granted: Granted, holders: Iterable[common.PrincipalReference]) -> list[Grant]:
    changed = set(holders)
    kept = [(_reference(grant.principal), grant.role) for grant in granted.grants]
    return [Grant(principal=holder, role=role) for holder, role in kept if holder not in changed]


def _ends(path: list[AuthorizationStep], gone: set[str], *, closing: bool) -> bool:
    """Return whether a path of access ends with the grants of these holders, or (`closing`) of everyone."""
    holder = next((item for item, after in pairwise(path) if after.type is StepType.GRANT), None)
    if holder is None:
        return False
    return closing if holder.type is StepType.ORGANIZATION else holder.id in gone


def _end(outcome: str, changes: list[str], *, plan_only: bool, screen: Screen) -> None:
    if screen.as_json:
        print_json(screen, "planned" if plan_only else outcome, changes=changes)
    if plan_only and changes:
        screen.say("Nothing was changed: this was the plan.")
