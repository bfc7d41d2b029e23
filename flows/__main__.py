"""`python -m flows`: bulk work on a Carrel service, from the command line.

    upload SOURCE           bring the catalog to what a folder, glob or manifest holds
    plan SOURCE             say what `upload` would do
    collection-add SOURCE   add documents of the catalog to a collection
    serve                   run what the workbench and schedules start

The service and its key come from CARREL_BASE_URL and CARREL_API_KEY. Exit codes: 0 all is as the source has it;
1 done, with some documents in quarantine; 2 wrong usage, or a source that can't be read; 3 the service refuses the
caller; 4 the service stayed away; 5 another run has the source; 6 the ledger can't be used;
130 interrupted. A run that ended early goes on where
it was when it is run again.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from carrel.errors import CarrelError
from flows.console import print_json, quarantine_file, show_end, show_plan, with_bar
from flows.errors import FlowError, LedgerError, RefusedError, ServiceDownError, SourceBusyError
from flows.operations.bulk import upload, upload_ledger
from flows.operations.collecting import add_to_collection, collection_ledger
from flows.operations.jobs import open_client, patience_of
from flows.operations.ledger import Ledger
from flows.operations.names import names_of
from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.quarantine import failure_rows
from flows.operations.summary import Summary, summarize
from flows.settings import FlowSettings, prefect_environment

_EXIT_CODES: Mapping[type[FlowError], int] = {RefusedError: 3, ServiceDownError: 4, SourceBusyError: 5, LedgerError: 6}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parsed = _parser().parse_args(arguments)
    console = Console(stderr=True, emoji=False)
    try:
        settings = FlowSettings()
        for name, value in prefect_environment(settings).items():
            os.environ.setdefault(name, value)
        return asyncio.run(parsed.command(parsed, settings, console))
    except KeyboardInterrupt:
        return _fail(parsed, console, 130, "interrupted", "Interrupted. Run again: the run goes on from here.")
    except FlowError as exc:
        return _fail(parsed, console, _EXIT_CODES.get(type(exc), 2), exc.code, str(exc))
    except (ValidationError, CarrelError) as exc:
        return _fail(parsed, console, 2, "invalid", str(exc))


def _fail(parsed: argparse.Namespace, console: Console, exit_code: int, code: str, message: str) -> int:
    if parsed.json:
        print_json({"outcome": code, "message": message, "exitCode": exit_code})
    else:
        console.print(message, markup=False, soft_wrap=True)
    return exit_code


async def _plan(parsed: argparse.Namespace, settings: FlowSettings, console: Console) -> int:
    outcome = await upload(parsed.source, options=_upload_options(parsed), settings=settings, dry_run=True)
    with upload_ledger(parsed.source, settings=settings) as ledger:
        ledger.join_latest()
        if parsed.json:
            members = {"outcome": "planned", "plan": outcome.plan.text(), **outcome.summary.as_json()}
            print_json({**members, "failures": failure_rows(ledger)})
        else:
            show_plan(outcome.plan, outcome.scanned, ledger, console=console)
    return 1 if outcome.summary.quarantined else 0


def _quiet_prefect() -> None:
    """What goes wrong is said by us, once; Prefect's own log stays with the run on its server."""
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    # Where Prefect's server is away, this one counts what it has not been told yet; its name is its whole name.
    logging.getLogger("EventsWorker").setLevel(logging.CRITICAL)


async def _upload(parsed: argparse.Namespace, settings: FlowSettings, console: Console) -> int:
    options = _upload_options(parsed)
    with upload_ledger(parsed.source, settings=settings) as ledger:
        if parsed.direct:
            work = upload(parsed.source, options=options, settings=settings)
        else:
            _quiet_prefect()
            from flows.bulk_upload import bulk_upload  # noqa: PLC0415 - Prefect reads its settings when imported

            work = bulk_upload(parsed.source, options)
        await (work if parsed.json else with_bar(work, ledger=ledger.path, console=console))
        return _end(parsed, ledger, console)


async def _collection_add(parsed: argparse.Namespace, settings: FlowSettings, console: Console) -> int:
    async with open_client(settings) as client:
        names = names_of(client, patience=patience_of(client, settings))
        collection = await names.id_of("collection", parsed.collection)
    options = CollectionOptions(collection=collection, metadata=dict(parsed.metadata), hidden=parsed.hidden)
    with collection_ledger(parsed.source, collection, settings=settings) as ledger:
        if parsed.direct:
            work = add_to_collection(parsed.source, options=options, settings=settings)
        else:
            _quiet_prefect()
            from flows.collection_add import collection_add  # noqa: PLC0415 - as above

            work = collection_add(parsed.source, options)
        await (work if parsed.json else with_bar(work, ledger=ledger.path, console=console))
        return _end(parsed, ledger, console)


def _end(parsed: argparse.Namespace, ledger: Ledger, console: Console) -> int:
    ledger.join_latest()
    summary = summarize(ledger)
    if parsed.json:
        members: dict[str, Any] = {"outcome": "quarantine" if summary.quarantined else "completed"}
        print_json({**members, **summary.as_json(), "failures": failure_rows(ledger), **_files(summary, ledger)})
    else:
        show_end(summary, ledger, console=console)
    return 1 if summary.quarantined else 0


def _files(summary: Summary, ledger: Ledger) -> dict[str, str]:
    return {"quarantineFile": str(quarantine_file(ledger))} if summary.quarantined else {}


async def _serve(parsed: argparse.Namespace, settings: FlowSettings, console: Console) -> int:
    from flows.serving import serve_flows  # noqa: PLC0415 - as above

    if not parsed.json:
        console.print("Serving the flows; stop with Ctrl-C.")
    await serve_flows(settings.data_dir / "flows" / "tmp", limit=parsed.limit)
    return 0


def _upload_options(parsed: argparse.Namespace) -> UploadOptions:
    return UploadOptions(
        collection=parsed.collection,
        allowed_users=parsed.allow_user,
        allowed_groups=parsed.allow_group,
        internal_public=True if parsed.internal_public else None,
        metadata=dict(parsed.metadata),
        hidden=parsed.hidden,
        upload_as_user_email=parsed.upload_as,
        retry_refused=parsed.retry_refused,
        wait_for_index=not parsed.no_wait,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flows", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in (("upload", _upload), ("plan", _plan)):
        sub = _command(commands, name, command)
        _source(sub)
        sub.add_argument("--collection", help="name or id of a collection to add the documents to")
        sub.add_argument("--allow-user", action="append", metavar="EMAIL", help="who may read; repeatable")
        sub.add_argument("--allow-group", action="append", metavar="GROUP", help="name or id; repeatable")
        sub.add_argument("--internal-public", action="store_true", help="everybody in the organization may read")
        sub.add_argument("--upload-as", metavar="EMAIL", help="the user to upload as")
        sub.add_argument("--retry-refused", action="store_true", help="send again what was refused and is the same")
        sub.add_argument("--no-wait", action="store_true", help="end without waiting for the index")
    adding = _command(commands, "collection-add", _collection_add)
    _source(adding)
    adding.add_argument("--collection", required=True, help="name or id of the collection")
    serving = _command(commands, "serve", _serve)
    serving.add_argument("--limit", type=int, default=4, help="runs at a time (4)")
    return parser


def _command(commands: Any, name: str, command: object) -> argparse.ArgumentParser:
    sub: argparse.ArgumentParser = commands.add_parser(name)
    sub.set_defaults(command=command)
    sub.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    return sub


def _source(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("source", help="a folder, a quoted glob pattern, or a .csv or .jsonl manifest")
    sub.add_argument("--metadata", action="append", default=[], type=_pair, metavar="KEY=VALUE", help="repeatable")
    sub.add_argument("--hidden", action="store_true", help="also take names that begin with a dot")
    sub.add_argument("--direct", action="store_true", help="without Prefect")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        msg = "give KEY=VALUE"
        raise argparse.ArgumentTypeError(msg)
    return key, value


if __name__ == "__main__":
    sys.exit(main())
