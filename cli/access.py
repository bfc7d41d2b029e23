"""`carrel access`: explain who may read a document, collection or agent."""

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

import carrel
from carrel import InvalidArgumentError
from carrel.directory.tables import printable
from carrel.wire import common
from carrel.wire.admin import Group
from carrel.wire.permissions import AuthorizationStep, ExplainAuthorizationResponse, StepType
from cli.choosing import AsJson, id_in, require_only
from cli.exit_codes import ExitCode
from cli.listing import print_json
from cli.outcome import connect

GROUP = "group:"
WHO = "An email address, or group: and the group's name, external id or id."

app = typer.Typer(no_args_is_help=True)


@app.command()
def explain(
    resource: Annotated[
        str, typer.Option(metavar="[TYPE:]ID", help="A document's id, or a type and an id, such as AGENT:…")
    ],
    who: Annotated[str, typer.Option(metavar="WHO", help=WHO)],
    as_json: AsJson = False,
) -> None:
    """Explain through which groups and grants a person may read a resource, or why the person may not.

    Exit code 0: the person may read it; 1: may not."""
    with connect(as_json=as_json) as (screen, client):
        reference, principal = resource_of(resource), principal_of(who, client)
        answer = client.permissions.explain_authorization(reference, principal)
    code = ExitCode.DONE if answer.authorized else ExitCode.PROBLEMS
    if as_json:
        print_json(screen, "explained", code=code, **answer.model_dump(mode="json"))
    else:
        screen.show(picture(answer, who=who, resource=resource))
    raise typer.Exit(code)


def resource_of(text: str) -> common.ResourceReference:
    """Return the resource named by a text; raises InvalidArgumentError when the text is ambiguous or invalid."""
    kind, colon, name = text.partition(":")
    if colon and kind.upper() in common.ResourceType.__members__ and name:
        return common.ResourceReference(resource_id=name, resource_type=common.ResourceType[kind.upper()])
    document_id = id_in(text)
    if document_id is None:
        kinds = ", ".join(common.ResourceType.__members__)
        raise InvalidArgumentError(f"{text} is not a resource: give a document's id, or TYPE:ID with a TYPE of {kinds}")
    return common.ResourceReference(resource_id=str(document_id), resource_type=common.ResourceType.UPLOADED_DOCUMENT)


def principal_of(text: str, client: "carrel.Carrel") -> common.PrincipalReference:
    """Return the principal named by a text; raises InvalidArgumentError for an unknown group or address."""
    if text.startswith(GROUP):
        return common.GroupReference(id=group_of(text.removeprefix(GROUP), client).id)
    if "@" not in text:
        raise InvalidArgumentError(
            f"{text} is unknown: give an address, or group: and a group's name, external id or id"
        )
    for account in client.admin.service_accounts.list(query=text, page_size=1000):
        if account.email == text.strip().lower():
            return common.ServiceAccountReference(id=account.service_account_id)
    return common.UserReference(email=text.strip().lower())


def group_of(name: str, client: "carrel.Carrel") -> Group:
    """Return the group with a name, external id or id; raises InvalidArgumentError for none or several."""
    groups = client.admin.groups.list(page_size=1000)
    found = [group for group in groups if name in {str(group.id), group.external_id, group.name}]
    return require_only(found, kind="group", name=name, hint="carrel groups list shows all. Give the external id or id")


def picture(answer: ExplainAuthorizationResponse, *, who: str, resource: str) -> Tree:
    """Return the paths as a tree with the principal at its root; steps shared by several paths are drawn once."""
    verdict = "can read" if answer.authorized else "cannot read"
    style = "bold green" if answer.authorized else "bold red"
    root = Tree(Text(printable(f"{who} {verdict} {resource}"), style=style), guide_style="dim")
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for path in answer.paths:
        trail: tuple[str, ...] = ()
        for step in path:
            branch, trail = branches[trail], (*trail, words_of(step))
            if trail not in branches:
                branches[trail] = branch.add(Text(trail[-1]))
    if answer.missing:
        root.add(Text(printable(answer.missing)))
    if not answer.complete:
        root.add(Text("… and more ways", style="dim"))
    return root


def words_of(step: AuthorizationStep) -> str:
    name = step.name or step.id or ""
    words = {
        StepType.USER: f"{name} <{step.email}>",
        StepType.SERVICE_ACCOUNT: f"service account {name} <{step.email}>",
        StepType.GROUP: f"in the group {name}",
        StepType.ORGANIZATION: "everyone in the organization",
        StepType.GRANT: f"has the role {step.role}",
        StepType.RESOURCE: f"on {name}",
    }
    return printable(words[step.type])
