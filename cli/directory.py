"""`carrel directory`: import people and groups from files of another directory."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from carrel.directory import DirectoryChanges, DirectoryPlan, GroupAction, MembershipAction, UserAction, UserChange
from carrel.directory.plan import GroupChange
from cli.choosing import AsJson
from cli.exit_codes import ExitCode
from cli.listing import SHOWN, print_json, show_more
from cli.outcome import client_of, usage
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

csv_file = partial(typer.Option, exists=True, dir_okay=False, metavar="FILE")


@app.command("import")
def import_directory(
    *,
    users: Annotated[Path | None, csv_file(help="CSV: email, name, isAdmin?, active?")] = None,
    groups: Annotated[Path | None, csv_file(help="CSV: externalId, name")] = None,
    memberships: Annotated[
        Path | None, csv_file(help="CSV: group (id or name), member (address or group's id)")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    deactivate_missing: Annotated[
        bool, typer.Option("--deactivate-missing", help="Deactivate users who are missing from the users file.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Allow removal of more than a fifth of the users or memberships.")
    ] = False,
    skip_problems: Annotated[
        bool, typer.Option("--skip-problems", help="Skip rows with problems. Their people stay.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create and change users, groups and memberships as CSV files say.

    Shows the plan first, and asks before applying it; without a terminal, use --dry-run or --yes. Each group in the
    files gets exactly the members of the memberships file. Run it again after any interruption, or every night."""
    screen = Screen(as_json=as_json, agrees=yes)
    if users is None and groups is None and memberships is None:
        raise usage(screen, "Give at least one of --users, --groups and --memberships.")
    if deactivate_missing and users is None:
        raise usage(screen, "--deactivate-missing needs --users.")
    if dry_run and yes:
        raise usage(screen, "Give either --dry-run or --yes.")
    if not (dry_run or yes or screen.can_ask):
        raise usage(screen, "No terminal for confirmation: give --dry-run to see the plan, or --yes to apply it.")
    with client_of(screen) as client:
        with screen.progress() as tell:
            plan = client.admin.directory.plan(
                users=users,
                groups=groups,
                memberships=memberships,
                deactivate_missing=deactivate_missing,
                skip_problems=skip_problems,
                force=force,
                on_progress=tell,
            )
        show_plan(plan, screen=screen)
        outcome = _before_applying(plan, dry_run=dry_run)
        if outcome is None and not screen.confirm("Apply this?"):
            outcome = "declined"
        done = None
        if outcome is None:
            with screen.progress() as tell:
                done = client.admin.directory.apply(plan, on_progress=tell)
    raise _end(plan, outcome or "applied", done, screen=screen)


def _before_applying(plan: DirectoryPlan, *, dry_run: bool) -> str | None:
    """Return the outcome of a plan that is not to be applied; None if it can be applied."""
    if plan.problems and not (plan.skips_problems and all(problem.skippable for problem in plan.problems)):
        return "problems"
    if plan.refusal:
        return "refused"
    if plan.is_empty:
        return "unchanged"
    return "planned" if dry_run else None


def _end(plan: DirectoryPlan, outcome: str, done: DirectoryChanges | None, *, screen: Screen) -> typer.Exit:
    code = ExitCode.PROBLEMS if plan.problems or plan.refusal else ExitCode.DONE
    if screen.as_json:
        applied = done.model_dump(mode="json") if done else None
        print_json(screen, outcome, code=code, plan=plan.model_dump(mode="json"), applied=applied)
    else:
        screen.say(_last_words(plan, outcome))
    return typer.Exit(code)


def _last_words(plan: DirectoryPlan, outcome: str) -> str:
    left_out = f" Skipped {len(plan.problems)} rows with problems." if plan.problems else ""
    skipping = ", or skip it with --skip-problems" if all(problem.skippable for problem in plan.problems) else ""
    return {
        "problems": f"Nothing was changed. Correct the problems{skipping}, and run the command again.",
        "refused": f"Nothing was changed: {plan.refusal} (--force).",
        "unchanged": f"There is nothing to change.{left_out}",
        "planned": f"Nothing was changed: this was a dry run.{left_out}",
        "declined": "Nothing was changed.",
        "applied": f"Done: {plan.change_count:,} changes.{left_out}",
    }[outcome]


def show_plan(plan: DirectoryPlan, *, screen: Screen) -> None:
    """Print a plan: the number of changes, the first changes of each kind, and the errors."""
    if screen.as_json:
        return
    table = Table("", "new", "changed", "removed", "unchanged", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, actions, unchanged in (
        ("users", (UserAction.CREATE, UserAction.UPDATE, UserAction.DEACTIVATE), plan.unchanged_users),
        ("groups", (GroupAction.CREATE, GroupAction.RENAME, None), plan.unchanged_groups),
        ("memberships", (MembershipAction.ADD, None, MembershipAction.REMOVE), plan.unchanged_memberships),
    ):
        numbers = (*(plan.count(action) if action else 0 for action in actions), unchanged)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    screen.show(table)
    _lines([_user_line(change) for change in sorted(plan.users, key=_weight)], "users", screen=screen)
    _lines([_group_line(change) for change in plan.groups], "groups", screen=screen)
    memberships = sorted(plan.memberships, key=lambda item: item.action is MembershipAction.ADD)
    lines = [f"{_SIGNS[membership.action]} {membership.group}: {membership.member}" for membership in memberships]
    _lines(lines, "memberships", screen=screen)
    for note in plan.notes:
        screen.line(f"note: {note}", style="dim")
    problems = [f"! {problem.file}, line {problem.line}: {problem.message}" for problem in plan.problems]
    _lines(problems, "problems", screen=screen)


def _weight(change: UserChange) -> int:
    if change.action is UserAction.DEACTIVATE or change.active is False:
        return 0
    return 1 if change.is_admin is not None else 2


def _user_line(change: UserChange) -> str:
    words = [f"{change.name_before} → {change.name}" if change.name_before else change.name or ""]
    if change.is_admin is not None:
        words.append("admin" if change.is_admin else "not an admin")
    if change.active is not None:
        words.append("active" if change.active else "inactive")
    return f"{_SIGNS[change.action]} {change.email}  {', '.join(word for word in words if word)}"


def _group_line(change: GroupChange) -> str:
    before = f"{change.name_before} → " if change.action is GroupAction.RENAME else ""
    return f"{_SIGNS[change.action]} group {change.external_id}  {before}{change.name}"


_SIGNS = {"CREATE": "+", "ADD": "+", "UPDATE": "~", "RENAME": "~", "DEACTIVATE": "-", "REMOVE": "-"}
STYLES = {"+": "green", "~": "yellow", "-": "red", "!": "bold red"}


def _lines(lines: list[str], heading: str, *, screen: Screen) -> None:
    for line in lines[:SHOWN]:
        screen.line(line, style=STYLES[line[0]])
    show_more(screen, len(lines) - SHOWN, f" {heading}")
