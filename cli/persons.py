"""`carrel people`: single people of the organization, and the groups that they are in."""

from typing import TYPE_CHECKING, Annotated

import typer

from carrel import InvalidArgumentError
from carrel.wire.admin import ListedUser
from carrel.wire.common import SecondFactor, UserReference
from carrel.wire.people import GroupMembership
from cli.access import group_id_of
from cli.choosing import AsJson, require_one
from cli.completing import names_of_groups
from cli.listing import Columns, say_done, show_list, show_one, to_json
from cli.outcome import client_of
from cli.people import app
from cli.screen import Screen

if TYPE_CHECKING:
    from carrel import Carrel

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The address that they sign in with.")]
Grouped = Annotated[
    str, typer.Argument(metavar="GROUP", help="A group's name, external id or id.", autocompletion=names_of_groups)
]
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
    show_list(screen, "people", found, COLUMNS, empty="Nobody is like this: carrel people add adds somebody.")


@app.command()
def show(email: Email, *, as_json: AsJson = False) -> None:
    """Show a person: how they sign in, the groups they are in, and through what, and how much they can read."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        person = person_of(email, client)
        reference = UserReference(email=person.email)
        groups = list(client.admin.groups.list_memberships(reference, page_size=1000))
        reach = client.admin.access.count_resources(readable_by=reference)
    show_one(
        screen,
        person,
        title=person.name,
        facts=[
            ("address", person.email),
            ("id", person.id),
            ("status", _facts(person)),
            ("sign-in", _last_sign_in(person)),
            ("2nd factor", [_second_factor(one) for one in person.second_factors] or "none"),
            ("can read", f"{reach.total:,} resources"),
            *(("in", _membership(one)) for one in groups),
        ],
        memberships=[to_json(one) for one in groups],
        canRead=[to_json(one) for one in reach.counts],
    )


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
    words = f"Added {made.name} <{made.email}>. carrel people invite {made.email} lets them set a password."
    say_done(screen, "added", words, **to_json(made))


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
    say_done(screen, "changed", f"Changed {changed.name} <{changed.email}>.", **to_json(changed))


@app.command()
def invite(email: Email, *, as_json: AsJson = False) -> None:
    """Print a link at which a person sets a password: once, within 7 days. It ends the link they had."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        made = client.admin.users.invite(email)
    say_done(screen, "invited", made.url, **to_json(made))
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
    words = f"{person.name} <{person.email}> is {'now' if joins else 'no longer'} a member of {group}."
    say_done(screen, "joined" if joins else "left", words, groupId=str(group_id), memberCount=count)


def person_of(email: str, client: "Carrel") -> ListedUser:
    """Return the person of an address; raises InvalidArgumentError when there is nobody."""
    return require_one(_find(email, client), kind="person", name=email, hint="carrel people list shows all")


def _find(email: str, client: "Carrel") -> list[ListedUser]:
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


def _second_factor(one: SecondFactor) -> str:
    return f"{one.description}, since {one.created_at:%Y-%m-%d}"


def _membership(one: GroupMembership) -> str:
    through = ", ".join(group.name for group in one.through)
    return f"{one.name}, through {through}" if through else one.name


COLUMNS: Columns[ListedUser] = {
    "address": lambda one: one.email,
    "name": lambda one: one.name,
    "status": _facts,
    "groups": lambda one: one.group_count,
    "last sign-in": _last_sign_in,
}
