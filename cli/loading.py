"""`carrel upload` and `carrel plan`: make the catalog match a source."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.choosing import AsJson, Yes
from cli.outcome import show_errors
from cli.screen import Screen
from flows.operations.options import UploadOptions

SOURCE = "A folder, file, quoted glob pattern, .csv or .jsonl manifest, or an object store's s3://, gs:// or az:// URL."

Source = Annotated[str, typer.Argument(help=SOURCE, metavar="SOURCE")]
Metadata = Annotated[list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="Repeatable.")]
Hidden = Annotated[bool, typer.Option("--hidden", help="Also load names that begin with a dot.")]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Load these files although their type is skipped by default; repeatable."),
]
Exclude = Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Skip these files; repeatable.")]
Names = Annotated[
    Path | None, typer.Option("--names", metavar="FILE", help="Write the names of all documents to a CSV file.")
]
Direct = Annotated[bool, typer.Option("--direct", help="Run without Prefect.")]

_Collection = Annotated[str | None, typer.Option(help="Name or id of a collection to add the documents to.")]
_Users = Annotated[list[str] | None, typer.Option("--allow-user", metavar="EMAIL", help="Gets access; repeatable.")]
_Groups = Annotated[list[str] | None, typer.Option("--allow-group", metavar="GROUP", help="Name or id; repeatable.")]
_Public = Annotated[bool, typer.Option("--internal-public", help="Everyone in the organization can read.")]
_Pictures = Annotated[
    bool | None,
    typer.Option("--read-pictures/--leave-pictures", help="Read text in images inside files. Default: as before."),
]
_UploadAs = Annotated[str | None, typer.Option("--upload-as", metavar="EMAIL", help="Upload as this user.")]
_Retry = Annotated[bool, typer.Option("--retry-refused", help="Resend refused, unchanged documents.")]
_Delete = Annotated[bool, typer.Option("--delete-missing", help="Delete documents that are gone from the source.")]
_Limit = Annotated[
    int, typer.Option("--delete-limit", metavar="PERCENT", min=0, max=100, help="Deletion limit of a run (percent).")
]


def pairs(metadata: list[str] | None) -> dict[str, str]:
    """Return KEY=VALUE options as a mapping; a malformed option is a usage error."""
    found: dict[str, str] = {}
    for text in metadata or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--metadata")
        found[key] = value
    return found


def _options(given: Mapping[str, Any]) -> UploadOptions:
    """Return the options among a command's parameters, which have the options' names."""
    known = UploadOptions.model_fields
    said: dict[str, Any] = {name: value for name, value in given.items() if name in known and value is not None}
    said |= {"internal_public": given["internal_public"] or None, "metadata": pairs(given["metadata"])}
    return UploadOptions(**said, wait_for_index=not given.get("no_wait"))


def upload(
    source: Source,
    *,
    collection: _Collection = None,
    allowed_users: _Users = None,
    allowed_groups: _Groups = None,
    internal_public: _Public = False,
    metadata: Metadata = None,
    hidden: Hidden = False,
    include: Include = None,
    exclude: Exclude = None,
    read_pictures: _Pictures = None,
    upload_as_user_email: _UploadAs = None,
    retry_refused: _Retry = False,
    delete_missing: _Delete = False,
    delete_limit_percent: _Limit = 20,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the index.")] = False,
    direct: Direct = False,
    names: Names = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Make the catalog match a source: only new and changed documents are sent.

    Lock files, stylesheets, minified files, certificates and secrets are left out unless --include names them.
    --delete-missing lists the documents that were sent from this source and are now missing, and deletes them after a
    question or with --yes. Nothing is deleted when the listing is incomplete or empty, or above the limit. After an
    interruption, run the command again."""
    options = _options(locals())
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.runs import run_upload  # noqa: PLC0415 - the flows come with an extra of their own

        raise typer.Exit(run_upload(source, options, screen=screen, direct=direct, names=names, yes=yes))


def plan(**given: Any) -> None:
    """Show the effect of `carrel upload` with the same options; nothing is sent or changed."""
    options = _options(given)
    with show_errors(Screen(as_json=given["as_json"])) as screen:
        from cli.runs import run_plan  # noqa: PLC0415 - as above

        raise typer.Exit(run_plan(given["source"], options, screen=screen, names=given["names"]))


_OF_A_RUN_ALONE = {"no_wait", "direct", "yes"}
_UPLOAD = signature(upload)
plan.__signature__ = _UPLOAD.replace(  # pyright: ignore[reportFunctionMemberAccess] - typer asks for it
    parameters=[parameter for name, parameter in _UPLOAD.parameters.items() if name not in _OF_A_RUN_ALONE]
)
