"""`carrel agents`: list agents, ask them, and read the questions of people."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

import carrel
from carrel import InvalidArgumentError, NotFoundError, PermissionDeniedError
from carrel.wire.agents import AgentDefinition, AgentRetrieval
from carrel.wire.places import describe_place
from carrel.wire.question_log import LoggedQuestion, Outcome
from cli.access import resource_of
from cli.choosing import AsJson, PartOfName, Since, id_in, require_only
from cli.completing import names_of_agents
from cli.exit_codes import ExitCode
from cli.grants import read_grants
from cli.listing import Columns, print_json, show_first, show_list, show_object, to_json
from cli.outcome import connect
from cli.screen import Screen

# `carrel` imports these at their first use, because the import is too slow for help and completion.
if TYPE_CHECKING:
    import carrel.drafts
    import carrel.evaluation  # noqa: TC004 - see above
    from carrel import Carrel, Reply, Restarted, TextDelta
    from carrel.evaluation import Difference
    from carrel.wire.evaluation import EvaluationSet
    from carrel.wire.evaluation_runs import EvaluationRun

app = typer.Typer(no_args_is_help=True)

Named = Annotated[
    str,
    typer.Argument(metavar="AGENT", help="Name or id; without admin rights, the id.", autocompletion=names_of_agents),
]

COLUMNS: Columns[AgentDefinition] = {
    "name": lambda agent: agent.name,
    "open to programs": lambda agent: agent.api_access_enabled,
    "collections": lambda agent: len(agent.collection_ids),
    "model": lambda agent: agent.model or "default",
    "id": lambda agent: agent.agent_id,
}


@app.command("list")
def list_agents(*, query: PartOfName = None, as_json: AsJson = False) -> None:
    """List agents; for admins."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.agents.list(query=query, page_size=1000)
        empty = "No agents yet. Create an agent on the Agents page of the workbench, or with admin/agents/create."
        show_list(screen, "agents", found, COLUMNS, empty=empty if query is None else "No agents match.")


@app.command()
def show(agent: Named, *, as_json: AsJson = False) -> None:
    """Show an agent, the collections it retrieves from, and who may use it; for admins."""
    with connect(as_json=as_json) as (screen, client):
        found = agent_of(agent, client)
        granted = read_grants(resource_of(f"AGENT:{found.agent_id}"), client)
        known = client.document_collections.list_document_collections(page_size=1000)
        names = {collection.document_collection_id: collection.collection_name for collection in known}
    used_by = ["everyone in the organization"] * granted.everybody + [item.principal.name for item in granted.grants]
    show_object(
        screen,
        found,
        title=found.name,
        facts=[
            ("id", found.agent_id),
            ("about", found.description or "no description"),
            ("model", found.model or "default of the service"),
            ("programs", "can ask it" if found.api_access_enabled else "cannot ask it: API access is off"),
            ("from", [names.get(item, str(item)) for item in found.collection_ids] or "none, so it finds nothing"),
            ("retrieval", _describe_retrieval(found.retrieval)),
            ("starters", found.starter_questions or "no starter questions"),
            ("searches", "answered on the Search page" if found.answers_searches else "not answered"),
            ("used by", used_by or "nobody"),
        ],
        organizationWide=granted.everybody,
        grants=[to_json(item) for item in granted.grants],
    )


def _describe_retrieval(retrieval: AgentRetrieval) -> list[str]:
    reranked = {None: "default reranking of the organization", True: "reranked", False: "not reranked"}
    return [
        *["with filters from the message"] * bool(retrieval.enable_smart_filtering),
        *["each question of a long message"] * bool(retrieval.enable_query_extraction),
        reranked[retrieval.enable_reranking],
    ]


@app.command()
def copy(
    agent: Named,
    *,
    name: Annotated[str | None, typer.Option(help="Name of the copy. Default: … (copy).")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy an agent with all its settings, but without deployments; for admins. Change the copy, and compare both."""
    with connect(as_json=as_json) as (screen, client):
        made = carrel.drafts.copy_agent(client, agent_of(agent, client).agent_id, name=name)
    show_object(screen, made, title=made.name, facts=[("id", made.agent_id), ("used by", "nobody")])


QUESTIONS: Columns[LoggedQuestion] = {
    "at": lambda question: question.at,
    "question": lambda question: "(erased)" if question.message is None else question.message,
    "outcome": lambda question: question.outcome.value.lower(),
    "thumbs": lambda question: question.feedback and question.feedback.value.lower(),
    "agent": lambda question: question.agent_name,
    "who": lambda question: question.actor.name,
}


@app.command()
def questions(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="Name or id. Default: all agents.", autocompletion=names_of_agents),
    ] = None,
    *,
    unanswered: Annotated[bool, typer.Option("--unanswered", help="Only unanswered questions.")] = False,
    query: Annotated[str | None, typer.Option(metavar="TEXT", help="Text in the question.")] = None,
    since: Since = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Most questions to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the questions of people and results, newest first; for admins."""
    with connect(as_json=as_json) as (screen, client):
        log = client.admin.question_log.query(
            agent_id=None if agent is None else _id_of(agent, client),
            outcome=Outcome.UNANSWERED if unanswered else None,
            query=query,
            from_=since,
            page_size=min(most + 1, 1000),
        )
        show_first(screen, "questions", log, QUESTIONS, most=most, empty="No questions match.")


@app.command()
def evaluate(
    name: Annotated[str, typer.Argument(metavar="SET", help="Name or id of an agent's evaluation set.")],
    *,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Name or id of another agent to compare.", autocompletion=names_of_agents),
    ] = None,
    note: Annotated[str | None, typer.Option(help="What you changed since the last run.")] = None,
    user: Annotated[str | None, typer.Option("--as", metavar="EMAIL", help="Ask as this user.")] = None,
    at_least: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCORE=SHARE",
            help="Minimum score from 0 to 1, such as recall=0.8; repeatable. Scores: answered, recall, precision, "
            "statements_said, refused, groundedness. Minimum scores decide instead of worse replies.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an agent each question of an evaluation set, and keep the results as a run; for admins.

    The replies are compared with the newest complete run of the set's own agent.

    Exit code 1: a question failed, or a score is below --at-least; without --at-least, a reply is worse than before."""
    with connect(as_json=as_json) as (screen, client):
        floors = dict(map(_read_floor, at_least or []))
        chosen = _set_of(name, client)
        agent_id = None if agent is None else _id_of(agent, client)
        run, changed, settings = _run_and_compare(client, chosen, agent_id, note, user, screen=screen)
    low = carrel.evaluation.find_low_scores(run, floors)
    is_worse = any(each.change < 0 for each in changed)
    code = ExitCode.PROBLEMS if run.failed_count or low or (is_worse and not floors) else ExitCode.DONE
    _show_run(run, changed, settings, low, floors, code=code, screen=screen)
    raise typer.Exit(code)


def _run_and_compare(
    client: "Carrel", chosen: "EvaluationSet", agent: UUID | None, note: str | None, user: str | None, *, screen: Screen
) -> "tuple[EvaluationRun, list[Difference], list[str]]":
    sets, set_id = client.admin.evaluation_sets, chosen.evaluation_set_id
    before = carrel.evaluation.find_run_to_compare(sets.list_runs(set_id), agent_id=chosen.agent_id)
    with screen.bar("asking") as bar:

        def show(done: int, of: int) -> None:
            bar(f"asked {done:,}", done=done, total=of)

        run = carrel.evaluation.run(client, chosen, agent_id=agent, note=note, user_email=user, on_progress=show)
    old = [] if before is None else list(sets.list_results(set_id, before.evaluation_run_id))
    changed = carrel.evaluation.compare(old, list(sets.list_results(set_id, run.evaluation_run_id)))
    settings = [] if before is None else carrel.evaluation.find_changed_settings(before, run)
    return run, [each for each in changed if each.change], settings


def _read_floor(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    name = name.strip().replace("-", "_")
    try:
        floor = float(share)
    except ValueError:
        floor = -1
    if name not in carrel.evaluation.SCORES_OF_REPLIES or not 0 <= floor <= 1:
        message = f"--at-least {text}: give a score and a share from 0 to 1, such as recall=0.8. Scores are "
        raise InvalidArgumentError(message + ", ".join(carrel.evaluation.SCORES_OF_REPLIES))
    return name, floor


def _set_of(name: str, client: "Carrel") -> "EvaluationSet":
    listed = client.admin.evaluation_sets.list(page_size=1000)
    known = [item for item in listed if item.agent_id and name in {item.name, str(item.evaluation_set_id)}]
    found = require_only(known, kind="evaluation set of an agent", name=name, hint="an agent's page lists its sets")
    if not found.case_count:
        message = f"The evaluation set {found.name} has no questions. Add questions on the Agents page of the workbench"
        raise InvalidArgumentError(message)
    return found


def _show_run(
    run: "EvaluationRun",
    changed: "Sequence[Difference]",
    settings: Sequence[str],
    low: Mapping[str, float | None],
    floors: Mapping[str, float],
    *,
    code: ExitCode,
    screen: Screen,
) -> None:
    from flows.operations.evaluating import describe_low_scores  # noqa: PLC0415 - slow to import, and optional

    worse = [each.question for each in changed if each.change < 0]
    better = [each.question for each in changed if each.change > 0]
    if screen.as_json:
        told = {"worse": worse, "better": better, "low": list(low), "changedSettings": settings}
        print_json(screen, "evaluated", code=code, **to_json(run), **told)
        return
    names = carrel.evaluation.SCORES_OF_REPLIES  # the names that --at-least takes
    measured = [f"{name} {value:.0%}" for name in names if (value := getattr(run, name)) is not None]
    screen.line(f"{run.case_count:,} asked: {', '.join(measured)}")
    if run.failed_count:
        screen.line(f"{run.failed_count:,} failed and are not in the scores: see the workbench")
    if settings:
        screen.line(f"Changed settings: {', '.join(settings)}")
    screen.lines(f"Worse than before: {question}" for question in worse)
    screen.lines(f"Better than before: {question}" for question in better)
    screen.lines(f"Too low: {told}" for told in describe_low_scores(low, floors))


@app.command()
def ask(
    agent: Named,
    question: Annotated[str, typer.Argument(help="The question.")],
    *,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Id of the conversation to continue.")] = None,
    user: Annotated[str | None, typer.Option("--as", metavar="EMAIL", help="Ask as this user.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask an agent, and print its reply while it is written, then its sources.

    An admin may also ask an agent not deployed to admins, such as a draft. The draft is lent for the question. Exit
    code 1: no readable document answers the question, so the reply has no source."""
    with connect(as_json=as_json) as (screen, client):
        agent_id = _id_of(agent, client)
        with (
            nullcontext() if user else _lend(client, agent_id),
            client.agents.stream(agent_id, question, conversation_id=conversation, user_email=user) as events,
        ):
            reply = _write_reply(events, screen=screen)
    code = ExitCode.DONE if reply.sources else ExitCode.PROBLEMS
    if as_json:
        print_json(screen, "answered" if reply.sources else "unanswered", code=code, **to_json(reply))
    else:
        screen.write("\n")
        for number, source in enumerate(reply.sources, 1):
            name = ", ".join(part for part in (source.name, describe_place(source.place)) if part)
            quote = " ".join(source.quote.split())
            screen.line(f"[{number}] {name}: “{quote}”" if quote else f"[{number}] {name}")
        for warning in reply.warnings:
            screen.say(warning)
        screen.say(f"To continue: --conversation {reply.conversation_id}")
    raise typer.Exit(code)


def _lend(client: "Carrel", agent_id: UUID) -> AbstractContextManager[None]:
    """Lend an agent to an admin; everyone else may ask only deployed agents."""
    try:
        carrel.drafts.is_draft(client, agent_id)  # only an admin may ask this
    except (PermissionDeniedError, NotFoundError):
        return nullcontext()
    return carrel.drafts.lend_draft(client, agent_id)


def _write_reply(events: "Iterable[Reply | Restarted | TextDelta]", *, screen: Screen) -> "Reply":
    reply = None
    for event in events:
        match event:
            case carrel.TextDelta():
                screen.write(event.text)
            case carrel.Restarted():
                screen.write("\n")
                screen.say("The reply starts again. Ignore the text above.")
            case carrel.Reply():
                reply = event
    if reply is None:  # a stream ends with a reply, or raises
        raise AssertionError
    return reply


def agent_of(name: str, client: "Carrel") -> AgentDefinition:
    """Return the agent with a name or id; raises InvalidArgumentError for none or several."""
    found = [agent for agent in client.admin.agents.list(page_size=1000) if name in {agent.name, str(agent.agent_id)}]
    return require_only(found, kind="agent", name=name, hint="carrel agents list shows all agents")


def _id_of(name: str, client: "Carrel") -> UUID:
    return id_in(name) or agent_of(name, client).agent_id
