"""`carrel people`: single people of the organization, and the groups that they are in."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from carrel import Carrel, InvalidArgumentError
from carrel.directory.tables import printable
from carrel.wire.admin import ListedUser
from carrel.wire.common import UserReference
from cli.access import group_id_of
from cli.choosing import require_one
from cli.exit_codes import ExitCode
from cli.loading import AsJson
from cli.outcome import client_of
from cli.people import app
from cli.screen import Screen

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The address that they sign in with.")]
Grouped = Annotated[str, typer.Argument(metavar="GROUP", help="A group's name, external id or id.")]
Name = Annotated[str | None, typer.Option(help="What others see.")]


@app.command("list")
def list_people(
    *,
    query: Annotated[str | None, typer.Option(help="Part of the name or address.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Only who is, or isn't, active.")] = None,
    admins: Annotated[bool, typer.Option("--admins", help="Only admins.")] = False,
    never_signed_in: Annotated[bool, typer.Option("--never-signed-in", help="Only who never has signed in.")] = False,
    in_no_group: Annotated[bool, typer.Option("--in-no-group", help="Only who is in no group.")] = False,
    as_json: AsJson = False,
) -> None:
    """List people: all, or those whom every option leaves."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        found = list(
            client.admin.users.list(
                query=query,
                active=active,
                is_admin=True if admins else None,
                signed_in=False if never_signed_in else None,
                in_group=False if in_no_group else None,
                page_size=1000,
            )
        )
    if as_json:
        _print_json(screen, "listed", people=[one.model_dump(mode="json") for one in found])
        return
    table = Table("address", "name", "status", "groups", "last sign-in", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    for one in found:
        cells = (", ".join(_facts(one)), f"{one.group_count:,}", _last_sign_in(one))
        table.add_row(Text(printable(one.email)), Text(printable(one.name)), *cells)
    screen.show(table)


@app.command()
def show(email: Email, *, as_json: AsJson = False) -> None:
    """Show a person: the groups they are in, and through what, and how much they can read."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        person = person_of(email, client)
        reference = UserReference(email=person.email)
        groups = list(client.admin.groups.list_memberships(reference, page_size=1000))
        reach = client.admin.access.count_resources(readable_by=reference)
    if as_json:
        memberships = [one.model_dump(mode="json") for one in groups]
        counts = [one.model_dump(mode="json") for one in reach.counts]
        _print_json(screen, "found", **person.model_dump(mode="json"), memberships=memberships, canRead=counts)
        return
    screen.line(person.name, style="bold")
    for label, value in (
        ("address", person.email),
        ("id", str(person.id)),
        ("status", ", ".join(_facts(person))),
        ("sign-in", _last_sign_in(person)),
        ("can read", f"{reach.total:,} resources"),
    ):
        screen.line(f"{label:<10} {value}")
    for group in groups:
        through = ", ".join(one.name for one in group.through)
        screen.line(f"in         {group.name}" + (f", through {through}" if through else ""))


@app.command()
def add(
    email: Email,
    *,
    name: Name = None,
    admin: Annotated[bool, typer.Option("--admin", help="As an admin.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a person; one who is there already is refused, and not changed."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        if _find(email, client):
            msg = f"{email} is there already; carrel people change changes them"
            raise InvalidArgumentError(msg)
        fields = {"email": email, "is_admin": admin} | ({"name": name} if name is not None else {})
        [made] = client.admin.users.upsert([fields]).users
    if as_json:
        _print_json(screen, "added", **made.model_dump(mode="json"))
    else:
        screen.line(f"Added {made.name} <{made.email}>. carrel people invite {made.email} lets them set a password.")


@app.command()
def change(
    email: Email,
    *,
    name: Name = None,
    admin: Annotated[bool | None, typer.Option("--admin/--no-admin", help="Make them an admin, or not.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Whether they can sign in.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a person; what isn't said stays."""
    screen = Screen(as_json=as_json)
    given = {"name": name, "is_admin": admin, "active": active}
    changes = {field: value for field, value in given.items() if value is not None}
    with client_of(screen) as client:
        if not changes:
            msg = "say what to change: --name, --admin, --no-admin, --active or --inactive"
            raise InvalidArgumentError(msg)
        person = person_of(email, client)
        [changed] = client.admin.users.upsert([{"email": person.email, **changes}]).users
    if as_json:
        _print_json(screen, "changed", **changed.model_dump(mode="json"))
    else:
        screen.line(f"Changed {changed.name} <{changed.email}>.")


@app.command()
def invite(email: Email, *, as_json: AsJson = False) -> None:
    """Print a link at which a person sets a password: once, within 7 days. It ends the link they had."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        made = client.admin.users.invite(email)
    if as_json:
        _print_json(screen, "invited", **made.model_dump(mode="json"))
        return
    screen.line(made.url)
    screen.say(f"Send it to {email} as you would send a password. It works once, until {made.expires_at:%Y-%m-%d}.")


@app.command()
def join(email: Email, group: Grouped, *, as_json: AsJson = False) -> None:
    """Put a person into a group."""
    _change_membership(email, group, joins=True, as_json=as_json)


@app.command()
def leave(email: Email, group: Grouped, *, as_json: AsJson = False) -> None:
    """Take a person out of a group."""
    _change_membership(email, group, joins=False, as_json=as_json)


def _change_membership(email: str, group: str, *, joins: bool, as_json: bool) -> None:
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        person, group_id = person_of(email, client), group_id_of(group, client)
        groups = client.admin.groups
        change_members = groups.add_members if joins else groups.remove_members
        count = change_members(group_id, [UserReference(email=person.email)]).member_count
    if as_json:
        _print_json(screen, "joined" if joins else "left", groupId=str(group_id), memberCount=count)
    else:
        screen.line(f"{person.name} <{person.email}> is {'now' if joins else 'no longer'} a member of {group}.")


def person_of(email: str, client: Carrel) -> ListedUser:
    """Return the person of an address; raises InvalidArgumentError when there is nobody."""
    return require_one(_find(email, client), kind="person", name=email, hint="carrel people list shows all")


def _find(email: str, client: Carrel) -> list[ListedUser]:
    wanted = email.strip().lower()
    return [one for one in client.admin.users.list(query=wanted, page_size=1000) if one.email == wanted]


def _facts(person: ListedUser) -> list[str]:
    facts = ["active" if person.active else "inactive"]
    if person.is_admin:
        facts.append("admin")
    if person.invited_until is not None:
        facts.append("invited")
    return facts


def _last_sign_in(person: ListedUser) -> str:
    at = person.last_signed_in_at
    return "never" if at is None else at.isoformat(timespec="minutes")


def _print_json(screen: Screen, outcome: str, **members: Any) -> None:
    answer: Mapping[str, Any] = {"outcome": outcome, "exitCode": ExitCode.DONE, **members}
    screen.json(answer)
