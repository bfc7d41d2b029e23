"""`carrel people`: what people own, and offboarding those who leave."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from carrel.wire.access import ResourceCount
from carrel.wire.common import ResourceType, UserReference
from carrel.wire.owners import AdminUsersOffboardResponse, AdminUsersPlanOffboardingResponse
from cli.choosing import AsJson, PlanOnly, Yes, check_plan
from cli.exit_codes import ExitCode
from cli.outcome import client_of, usage
from cli.screen import Screen

if TYPE_CHECKING:
    from carrel import Carrel

SHOWN = 20

app = typer.Typer(no_args_is_help=True)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Their address, or a service account's.")]


@app.command()
def owns(email: Email, *, as_json: AsJson = False) -> None:
    """Show the documents and collections that somebody owns, whether or not they are active."""
    screen = Screen(as_json=as_json)
    owner = UserReference(email=email)
    with client_of(screen) as client:
        counted = client.admin.access.count_resources(owned_by=owner)
        listed = client.admin.access.list_resources(owned_by=owner, page_size=1000 if as_json else SHOWN)
        shown = list(listed if as_json else islice(listed, SHOWN))
    if as_json:
        members = {"counts": _to_json(counted.counts), "resources": [one.model_dump(mode="json") for one in shown]}
        screen.json({"outcome": "listed", "exitCode": ExitCode.DONE, "total": counted.total, **members})
        return
    screen.line(f"{email} owns {_words(counted.counts)}.", style="bold")
    for one in shown:
        screen.line(f"{one.name or one.resource_id}  {_kind(one.resource_type)}  {one.object_id}")
    if counted.total > len(shown):
        screen.line(f"  … and {counted.total - len(shown):,} more (--json has all of them)", style="dim")


@app.command()
def offboard(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address of the person who leaves.")],
    *,
    to: Annotated[
        str | None, typer.Option("--to", metavar="EMAIL", help="Who gets what they own: a person or a service account.")
    ] = None,
    plan_only: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """End all access of somebody at once, then give what they own to somebody else.

    Shows the plan first, and asks before doing it; without a terminal, say --plan or --yes. Run it again after any
    interruption: it does the rest.
    """
    screen = Screen(as_json=as_json)
    check_plan(screen, plan_only=plan_only, yes=yes)
    new_owner = None if to is None else UserReference(email=to)
    with client_of(screen) as client:
        plan = client.admin.users.plan_offboarding(email, new_owner=new_owner)
        show_plan(plan, screen=screen)
        outcome, done = "planned", None
        if not plan_only:
            if plan.owned and new_owner is None:
                raise usage(screen, f"{email} owns {_words(plan.owned)}: say with --to who gets that.")
            if yes or screen.confirm(f"Offboard {email}?"):
                outcome, done = "offboarded", _offboard(client, plan, new_owner, screen=screen)
            else:
                outcome = "declined"
    raise _end(plan, outcome, done, screen=screen)


def show_plan(plan: AdminUsersPlanOffboardingResponse, *, screen: Screen) -> None:
    """Print what would end, and what would go to whom."""
    user = plan.user
    state = "" if user.active else ", not active any more"
    screen.line(f"{user.name} <{user.email}>{', an admin' if user.is_admin else ''}{state}", style="bold")
    for count, what in (
        (len(plan.api_keys), "API keys"),
        (plan.browser_session_count, "browsers signed in"),
        (plan.application_count, "applications allowed"),
        (plan.application_token_count, "applications signed in"),
        (len(plan.groups), "groups"),
    ):
        screen.line(f"{what:<22}{count:>6,}", style="red" if count else "dim")
    _show_some([group.name for group in plan.groups], screen=screen)
    if plan.made_tokens:
        screen.line("Tokens of service accounts that they made, and may have copied, keep working:", style="yellow")
        _show_some([f"{one.name} (…{one.hint}, {one.token_id})" for one in plan.made_tokens], screen=screen)
    to = "" if plan.new_owner is None else f", which {plan.new_owner.name} gets"
    screen.line(f"They own {_words(plan.owned)}{to}.")
    if plan.only_reader:
        screen.line(f"Nobody else can read {_words(plan.only_reader)} today.", style="yellow")


def _show_some(names: Sequence[str], *, screen: Screen) -> None:
    for name in names[:SHOWN]:
        screen.line(f"    {name}")
    if len(names) > SHOWN:
        screen.line(f"    … and {len(names) - SHOWN:,} more (--json has all of them)", style="dim")


def _offboard(
    client: "Carrel", plan: AdminUsersPlanOffboardingResponse, new_owner: UserReference | None, *, screen: Screen
) -> list[AdminUsersOffboardResponse]:
    """Offboard, and ask again while something remains and the service gets on; return the answers."""
    answers: list[AdminUsersOffboardResponse] = []
    moved, total = 0, _total(plan.owned)
    with screen.bar("ending access") as bar:
        while True:
            answers.append(answer := client.admin.users.offboard(plan.user.email, new_owner=new_owner))
            moved += _total(answer.transferred)
            bar(f"handing over {moved:,}", done=moved, total=max(total, moved))
            if not answer.remaining or not answer.transferred:
                return answers


def _end(
    plan: AdminUsersPlanOffboardingResponse,
    outcome: str,
    answers: list[AdminUsersOffboardResponse] | None,
    *,
    screen: Screen,
) -> typer.Exit:
    moved = sum(_total(one.transferred) for one in answers or ())
    remaining = answers[-1].remaining if answers else []
    code = ExitCode.PROBLEMS if remaining else ExitCode.DONE
    if screen.as_json:
        ended = answers[0].ended.model_dump(mode="json") if answers else None
        done = {"ended": ended, "transferredCount": moved, "remaining": _to_json(remaining)} if answers else None
        members = {"plan": plan.model_dump(mode="json"), "done": done}
        screen.json({"outcome": outcome, "exitCode": code, **members})
    elif answers:
        screen.say(f"Done: all access of {plan.user.email} has ended; {moved:,} handed over.")
        if remaining:
            screen.say(f"They still own {_words(remaining)}: run it again.")
    else:
        screen.say("Nothing was changed: this was the plan." if outcome == "planned" else "Nothing was changed.")
    return typer.Exit(code)


def _total(counts: Iterable[ResourceCount]) -> int:
    return sum(one.count for one in counts)


def _words(counts: Iterable[ResourceCount]) -> str:
    """Return counts by type as people say them, those of every source's documents together; "nothing" without any."""
    totals: dict[str, int] = {}
    for one in counts:
        kind = _kind(one.resource_type)
        totals[kind] = totals.get(kind, 0) + one.count
    parts = [f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in totals.items()]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else "nothing"


_KINDS = {
    ResourceType.DOCUMENT_COLLECTION: "collection",
    ResourceType.DOCSTORE_SYNC: "sync",
    ResourceType.AGENT: "agent",
}


def _kind(resource_type: ResourceType) -> str:
    return _KINDS.get(resource_type, "document")


def _to_json(counts: Iterable[ResourceCount]) -> list[dict[str, object]]:
    return [one.model_dump(mode="json") for one in counts]
