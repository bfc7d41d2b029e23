"""`carrel people`: the people of the organization, groups, sessions, and offboarding."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated

import typer

import carrel
from carrel import InvalidArgumentError
from carrel.wire.access import ResourceCount
from carrel.wire.admin import ListedUser
from carrel.wire.common import SecondFactorPolicy, UserReference
from carrel.wire.owners import AdminUsersOffboardResponse, AdminUsersPlanOffboardingResponse
from carrel.wire.people import GroupMembership
from carrel.wire.sessions import PersonSession
from cli.access import group_of
from cli.choosing import AsJson, PlanOnly, Yes, confirm, require_only
from cli.completing import names_of_groups
from cli.exit_codes import ExitCode
from cli.listing import SHOWN, Columns, print_json, say_done, show_list, show_more, show_object, to_json
from cli.outcome import connect, usage
from cli.screen import Screen
from flows.operations.formatting import counts_text, kind_of

app = typer.Typer(no_args_is_help=True)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Email address for signing in.")]
Grouped = Annotated[
    str, typer.Argument(metavar="GROUP", help="Name, external id or id of a group.", autocompletion=names_of_groups)
]
Name = Annotated[str | None, typer.Option(help="Display name.")]
Person = Annotated[str, typer.Argument(metavar="EMAIL", help="Email address of the person.")]
Owner = Annotated[str, typer.Argument(metavar="EMAIL", help="Email address of a person or service account.")]


@app.command()
def owns(email: Owner, *, as_json: AsJson = False) -> None:
    """Show the documents and collections owned by a person, active or not."""
    owner = UserReference(email=email)
    with connect(as_json=as_json) as (screen, client):
        counted = client.admin.access.count_resources(owned_by=owner)
        listed = client.admin.access.list_resources(owned_by=owner, page_size=1000 if as_json else SHOWN)
        shown = list(listed if as_json else islice(listed, SHOWN))
    if as_json:
        counts, resources = ([item.model_dump(mode="json") for item in of] for of in (counted.counts, shown))
        print_json(screen, "listed", total=counted.total, counts=counts, resources=resources)
        return
    screen.line(f"{email} owns {counts_text(counted.counts) or 'nothing'}.", style="bold")
    for resource in shown:
        screen.line(f"{resource.name or resource.resource_id}  {kind_of(resource.resource_type)}  {resource.object_id}")
    show_more(screen, counted.total - len(shown))


@app.command()
def offboard(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Email address of the person who leaves.")],
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="EMAIL", help="New owner: a person or a service account.")
    ] = None,
    plan_only: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """End all access of a person at once, then transfer all documents and collections to a new owner.

    Shows the plan and asks; without a terminal, use --plan or --yes. After an interruption, run it again to finish."""
    new_owner = None if to is None else UserReference(email=to)
    with connect(as_json=as_json, yes=yes, plan_only=plan_only) as (screen, client):
        plan = client.admin.users.plan_offboarding(email, new_owner=new_owner)
        show_plan(plan, screen=screen)
        outcome, done = "planned", None
        if not plan_only:
            if plan.owned and new_owner is None:
                raise usage(screen, f"{email} owns {counts_text(plan.owned)}. Give the new owner with --to.")
            if screen.confirm(f"Offboard {email}?"):
                outcome, done = "offboarded", _offboard(client, plan, new_owner, screen=screen)
            else:
                outcome = "declined"
    raise _end(plan, outcome, done, screen=screen)


def show_plan(plan: AdminUsersPlanOffboardingResponse, *, screen: Screen) -> None:
    user = plan.user
    state = "" if user.active else ", not active"
    screen.line(f"{user.name} <{user.email}>{', an admin' if user.is_admin else ''}{state}", style="bold")
    for count, what in (
        (len(plan.api_keys), "API keys"),
        (plan.browser_session_count, "browser sessions"),
        (plan.application_count, "connected applications"),
        (plan.application_token_count, "application sessions"),
        (len(plan.groups), "groups"),
    ):
        screen.line(f"{what:<22}{count:>6,}", style="red" if count else "dim")
    _show_some([group.name for group in plan.groups], screen=screen)
    if plan.made_tokens:
        screen.line("Tokens that they created for service accounts keep working:", style="yellow")
        _show_some([f"{token.name} (…{token.hint}, {token.token_id})" for token in plan.made_tokens], screen=screen)
    to = "" if plan.new_owner is None else f"; the new owner is {plan.new_owner.name}"
    screen.line(f"Owns {counts_text(plan.owned) or 'nothing'}{to}.")
    if plan.only_reader:
        screen.line(f"Nobody else can read {counts_text(plan.only_reader)} today.", style="yellow")


def _show_some(names: Sequence[str], *, screen: Screen) -> None:
    for name in names[:SHOWN]:
        screen.line(f"    {name}")
    show_more(screen, len(names) - SHOWN, indent=4)


def _offboard(
    client: "carrel.Carrel", plan: AdminUsersPlanOffboardingResponse, new_owner: UserReference | None, *, screen: Screen
) -> list[AdminUsersOffboardResponse]:
    answers: list[AdminUsersOffboardResponse] = []
    moved, total = 0, _total(plan.owned)
    with screen.bar("ending access") as bar:
        while True:
            answers.append(answer := client.admin.users.offboard(plan.user.email, new_owner=new_owner))
            moved += _total(answer.transferred)
            bar(f"transferring {moved:,}", done=moved, total=max(total, moved))
            if not answer.remaining or not answer.transferred:
                return answers


def _end(
    plan: AdminUsersPlanOffboardingResponse,
    outcome: str,
    answers: list[AdminUsersOffboardResponse] | None,
    *,
    screen: Screen,
) -> typer.Exit:
    moved = sum(_total(answer.transferred) for answer in answers or ())
    remaining = answers[-1].remaining if answers else []
    code = ExitCode.PROBLEMS if remaining else ExitCode.DONE
    if screen.as_json:
        done: dict[str, object] | None = None
        if answers:
            left = [counted.model_dump(mode="json") for counted in remaining]
            done = {"ended": answers[0].ended.model_dump(mode="json"), "transferredCount": moved, "remaining": left}
        print_json(screen, outcome, code=code, plan=plan.model_dump(mode="json"), done=done)
    elif answers:
        screen.say(f"Done: all access of {plan.user.email} has ended; {moved:,} transferred.")
        if remaining:
            screen.say(f"{counts_text(remaining)} remain. Run the command again.")
    else:
        screen.say("Nothing was changed: this was the plan." if outcome == "planned" else "Nothing was changed.")
    return typer.Exit(code)


def _total(counts: Iterable[ResourceCount]) -> int:
    return sum(count.count for count in counts)


@app.command("list")
def list_people(
    *,
    query: Annotated[str | None, typer.Option(help="Part of the name or address.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Only active or inactive people.")] = None,
    admins: Annotated[bool, typer.Option("--admins", help="Only admins.")] = False,
    never_signed_in: Annotated[bool, typer.Option("--never-signed-in", help="Only people without a sign-in.")] = False,
    in_no_group: Annotated[bool, typer.Option("--in-no-group", help="Only people without a group.")] = False,
    as_json: AsJson = False,
) -> None:
    """List people: all, or only the matches of all options."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.users.list(
            query=query,
            active=active,
            is_admin=True if admins else None,
            signed_in=False if never_signed_in else None,
            in_group=False if in_no_group else None,
            page_size=1000,
        )
        show_list(screen, "people", found, PEOPLE, empty="No people match. Add a person with: carrel people add")


@app.command()
def show(email: Email, *, as_json: AsJson = False) -> None:
    """Show a person's sign-in methods, groups with the origin, and number of readable documents."""
    with connect(as_json=as_json) as (screen, client):
        person = person_of(email, client)
        reference = UserReference(email=person.email)
        groups = list(client.admin.groups.list_memberships(reference, page_size=1000))
        reach = client.admin.access.count_resources(readable_by=reference)
    factors = [f"{factor.description}, since {factor.created_at:%Y-%m-%d}" for factor in person.second_factors]
    show_object(
        screen,
        person,
        title=person.name,
        facts=[
            ("address", person.email),
            ("id", person.id),
            ("status", _facts(person)),
            ("sign-in", _last_sign_in(person)),
            ("2nd factor", factors or "none"),
            ("can read", f"{reach.total:,} resources"),
            *(("in", _membership(membership)) for membership in groups),
        ],
        memberships=[to_json(group) for group in groups],
        canRead=[to_json(count) for count in reach.counts],
    )


@app.command()
def add(
    email: Email,
    *,
    name: Name = None,
    admin: Annotated[bool, typer.Option("--admin", help="As an admin.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a person; an existing person is refused, and not changed."""
    with connect(as_json=as_json) as (screen, client):
        if _find(email, client):
            raise InvalidArgumentError(f"{email} already exists; carrel people change changes them")
        fields = {"email": email, "is_admin": admin} | ({"name": name} if name is not None else {})
        [made] = client.admin.users.upsert([fields]).users
    words = f"Added {made.name} <{made.email}>. Create a link to set a password with: carrel people invite {made.email}"
    say_done(screen, "added", words, **to_json(made))


@app.command()
def change(
    email: Email,
    *,
    name: Name = None,
    admin: Annotated[bool | None, typer.Option("--admin/--no-admin", help="Grant or remove admin rights.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Allow or prevent sign-in.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a person; omitted options stay unchanged."""
    given = {"name": name, "is_admin": admin, "active": active}
    changes = {field: value for field, value in given.items() if value is not None}
    with connect(as_json=as_json) as (screen, client):
        if not changes:
            raise InvalidArgumentError("give --name, --admin, --no-admin, --active or --inactive")
        person = person_of(email, client)
        [changed] = client.admin.users.upsert([{"email": person.email, "version": person.version, **changes}]).users
    say_done(screen, "changed", f"Changed {changed.name} <{changed.email}>.", **to_json(changed))


@app.command()
def invite(email: Email, *, as_json: AsJson = False) -> None:
    """Print a link for setting a password, valid once within 7 days. Earlier links of the person stop working."""
    with connect(as_json=as_json) as (screen, client):
        made = client.admin.users.invite(email)
    say_done(screen, "invited", made.url, **to_json(made))
    screen.say(f"Send this link securely to {email}. It works once, until {made.expires_at:%Y-%m-%d}.")


@app.command()
def join(email: Email, group: Grouped, *, as_json: AsJson = False) -> None:
    """Add a person to a group."""
    _change_membership(email, group, joins=True, as_json=as_json)


@app.command()
def leave(email: Email, group: Grouped, *, as_json: AsJson = False) -> None:
    """Remove a person from a group."""
    _change_membership(email, group, joins=False, as_json=as_json)


def _change_membership(email: str, group: str, *, joins: bool, as_json: bool) -> None:
    with connect(as_json=as_json) as (screen, client):
        person, group_id = person_of(email, client), group_of(group, client).id
        groups = client.admin.groups
        change_members = groups.add_members if joins else groups.remove_members
        count = change_members(group_id, [UserReference(email=person.email)]).member_count
    words = f"{person.name} <{person.email}> is {'now' if joins else 'no longer'} a member of {group}."
    say_done(screen, "joined" if joins else "left", words, groupId=str(group_id), memberCount=count)


def person_of(email: str, client: "carrel.Carrel") -> ListedUser:
    """Return the person with an address; raises InvalidArgumentError when no account has it."""
    return require_only(_find(email, client), kind="person", name=email, hint="carrel people list shows all people")


def _find(email: str, client: "carrel.Carrel") -> list[ListedUser]:
    wanted = email.strip().lower()
    return [user for user in client.admin.users.list(query=wanted, page_size=1000) if user.email == wanted]


def _facts(person: ListedUser) -> list[str]:
    facts = {"admin": person.is_admin, "invited": person.invited_until is not None}
    return ["active" if person.active else "inactive", *(fact for fact, holds in facts.items() if holds)]


def _last_sign_in(person: ListedUser) -> str:
    at = person.last_signed_in_at
    return "never" if at is None else at.isoformat(timespec="minutes")


def _membership(membership: GroupMembership) -> str:
    through = ", ".join(group.name for group in membership.through)
    return f"{membership.name}, through {through}" if through else membership.name


PEOPLE: Columns[ListedUser] = {
    "address": lambda user: user.email,
    "name": lambda user: user.name,
    "status": _facts,
    "groups": lambda user: user.group_count,
    "last sign-in": _last_sign_in,
}
SESSIONS: Columns[PersonSession] = {
    "session": lambda session: session.session_id,
    "what": lambda session: session.application_name or session.kind.lower(),
    "since": lambda session: session.created_at,
    "last used": lambda session: session.last_used_at,
    "device": lambda session: session.device,
    "address": lambda session: session.address,
}


@app.command()
def sessions(email: Person, *, as_json: AsJson = False) -> None:
    """Show the browsers with a session of a person, and the applications acting for the person."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.sessions.list(email, page_size=1000)
        show_list(screen, "sessions", found, SESSIONS, empty=f"{email} has no active sessions.")


@app.command("end-sessions")
def end_sessions(
    email: Person,
    *,
    session: Annotated[
        list[str] | None, typer.Option("--session", metavar="ID", help="Only this session, as listed; repeatable.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Sign a person out everywhere, or end some sessions, from the next request on."""
    with connect(as_json=as_json, yes=yes, action="end the sessions") as (screen, client):
        confirm(screen, f"End {'these' if session else 'all'} sessions of {email}?", outcome="ended")
        ended = client.admin.sessions.end(email, session_ids=session).ended_count
    say_done(screen, "ended", f"{ended} {'session' if ended == 1 else 'sessions'} of {email} ended.", endedCount=ended)


_EITHER = "an authenticator app or a passkey"
_WORDS = {
    SecondFactorPolicy.NOBODY: "Nobody needs a second factor.",
    SecondFactorPolicy.ADMINS: f"Admins who sign in with a password need a second factor: {_EITHER}.",
    SecondFactorPolicy.EVERYBODY: f"Everyone who signs in with a password needs a second factor: {_EITHER}.",
}


@app.command("second-factor")
def second_factor(
    of: Annotated[
        SecondFactorPolicy | None, typer.Argument(help="Who needs a second factor. Default: no change.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show or change who needs a second factor in addition to the password; an app or a passkey counts."""
    with connect(as_json=as_json) as (screen, client):
        settings = client.admin.organization
        now = settings.get() if of is None else settings.update(second_factor=of)
    say_done(screen, "shown" if of is None else "changed", _WORDS[now.second_factor], secondFactor=now.second_factor)


@app.command("reset-second-factor")
def reset_second_factor(email: Person, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove the second factors and recovery codes after a loss."""
    with connect(as_json=as_json, yes=yes, action="reset the second factors") as (screen, client):
        question = f"{email} can then sign in with only a password. Reset their second factors?"
        confirm(screen, question, outcome="reset")
        reset = client.admin.users.reset_second_factor(email)
    say_done(screen, "reset", f"{email} has no second factor now.", **to_json(reset))
