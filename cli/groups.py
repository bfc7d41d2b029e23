"""`carrel groups`: groups of people, service accounts and other groups."""

from collections.abc import Sequence
from typing import Annotated

import typer

from carrel import InvalidArgumentError
from carrel.wire.admin import Group, NamedPrincipal
from carrel.wire.common import GroupReference
from carrel.wire.people import AdminGroupsPreviewLossesResponse
from cli.access import WHO, group_of, principal_of
from cli.choosing import AsJson, PartOfName, PlanOnly, Yes, confirm
from cli.completing import names_of_groups
from cli.exit_codes import ExitCode
from cli.listing import Columns, print_json, say_done, show_list, show_object, to_json
from cli.outcome import connect
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

Named = Annotated[
    str, typer.Argument(metavar="GROUP", help="Name, external id or id of the group.", autocompletion=names_of_groups)
]
Members = Annotated[list[str], typer.Argument(metavar="WHO", help=f"{WHO} Repeatable.")]

COLUMNS: Columns[Group] = {
    "name": lambda group: group.name,
    "members": lambda group: group.member_count,
    "external id": lambda group: group.external_id,
    "id": lambda group: group.id,
}


@app.command("list")
def list_groups(*, query: PartOfName = None, as_json: AsJson = False) -> None:
    """List groups."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.groups.list(query=query, page_size=1000)
        empty = "No groups yet. Create a group with: carrel groups create" if query is None else "No groups match."
        show_list(screen, "groups", found, COLUMNS, empty=empty)


@app.command()
def show(group: Named, *, as_json: AsJson = False) -> None:
    """Show a group, its direct members, and the number of readable documents."""
    with connect(as_json=as_json) as (screen, client):
        found = group_of(group, client)
        members = list(client.admin.groups.list_members(found.id, page_size=1000))
        reach = client.admin.access.count_resources(readable_by=GroupReference(id=found.id))
    facts = [("id", found.id), ("external", found.external_id or "none"), ("can read", f"{reach.total:,} resources")]
    facts += [("member", name_of(principal)) for principal in members] or [("members", "none")]
    counts = [to_json(count) for count in reach.counts]
    rows = [to_json(member) for member in members]
    show_object(screen, found, title=found.name, facts=facts, members=rows, canRead=counts)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group.")],
    *,
    external_id: Annotated[str | None, typer.Option(help="Its id in another directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a group without members; an existing group is refused, and not changed."""
    with connect(as_json=as_json) as (screen, client):
        for group in client.admin.groups.list(page_size=1000):
            if group.name == name or (external_id is not None and group.external_id == external_id):
                raise InvalidArgumentError(f"A group {group.name} already exists: {group.id}")
        [made] = client.admin.groups.upsert([{"name": name, "external_id": external_id}]).groups
    say_done(screen, "created", f"Created {name}: {made.id}", **to_json(made))


@app.command()
def add(group: Named, who: Members, *, as_json: AsJson = False) -> None:
    """Add people, service accounts or groups to a group; they get the group's access from the next request on."""
    _change_members(group, who, adds=True, as_json=as_json)


@app.command()
def remove(group: Named, who: Members, *, plan_only: PlanOnly = False, as_json: AsJson = False) -> None:
    """Remove people, service accounts or groups from a group."""
    _change_members(group, who, adds=False, plan_only=plan_only, as_json=as_json)


@app.command()
def delete(group: Named, *, plan_only: PlanOnly = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a group: members lose at once all access given only by the group. Shows the losses first."""
    with connect(as_json=as_json, yes=yes, plan_only=plan_only) as (screen, client):
        found = group_of(group, client)
        losses = client.admin.groups.preview_losses(found.id)
        _show_losses(losses, screen=screen)
        if plan_only:
            _end_plan(losses, screen=screen)
            return
        confirm(screen, f"Delete the group {found.name}?")
        client.admin.groups.delete(found.id)
    say_done(screen, "deleted", f"Deleted {found.name}.", groupId=str(found.id), losses=to_json(losses))


def name_of(principal: NamedPrincipal) -> str:
    return f"group {principal.name}" if principal.type == "group" else f"{principal.name} <{principal.email}>"


def _change_members(group: str, who: Sequence[str], *, adds: bool, as_json: bool, plan_only: bool = False) -> None:
    with connect(as_json=as_json) as (screen, client):
        found, members = group_of(group, client), [principal_of(item, client) for item in who]
        if plan_only:
            losses = client.admin.groups.preview_losses(found.id, members)
            _show_losses(losses, screen=screen)
            _end_plan(losses, screen=screen)
            return
        groups = client.admin.groups
        change = groups.add_members if adds else groups.remove_members
        count = change(found.id, members).member_count
    words = f"{found.name} has {count:,} direct {'member' if count == 1 else 'members'} now."
    say_done(screen, "added" if adds else "removed", words, groupId=str(found.id), memberCount=count)


def _show_losses(losses: AdminGroupsPreviewLossesResponse, *, screen: Screen) -> None:
    for loss in losses.losses:
        count = sum(counted.count for counted in loss.counts)
        screen.line(f"{name_of(loss.principal)} would lose access to {count:,}", style="yellow")
    if not losses.losses:
        screen.line("Nobody would lose access.")
    if not losses.complete:
        screen.line(f"Only some of the {losses.person_count:,} members were checked.", style="dim")


def _end_plan(losses: AdminGroupsPreviewLossesResponse, *, screen: Screen) -> None:
    if screen.as_json:
        print_json(screen, "planned", code=ExitCode.DONE, losses=to_json(losses))
    else:
        screen.say("Nothing was changed: this was the plan.")
