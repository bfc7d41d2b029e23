"""`carrel check-notebook`: find credentials in notebooks, and outputs with documents not open to everyone."""

import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import typer

import carrel
from carrel import PermissionDeniedError
from carrel.wire.common import ResourceType
from cli.choosing import AsJson
from cli.exit_codes import ExitCode
from cli.outcome import client_of, fail, show_errors, usage
from cli.screen import Screen

_KINDS = {
    "key": "API key",
    "sa": "service account token",
    "at": "access token",
    "mt": "access token for /mcp",
    "rt": "refresh token",
    "ac": "authorization code",
    "cs": "client secret",
    "ss": "session cookie",
    "iv": "invitation",
    "sc": "provisioning token",
}
# Carrel's own credentials are longer; an operator's own key has at least this many characters after its prefix.
_CREDENTIAL = re.compile(rf"svc_(?P<kind>{'|'.join(_KINDS)})_[^\s\"'`<>\\]{{32,}}")
_SECRET_NAMES = re.compile(r"PASSWORD|SECRET|TOKEN|KEY|_URL$|_URI$")
_SHORTEST_VALUE = 8
# Tables shorten long names.
_COMPARED = 40
_END_OF_SIGN = {True: r"(?!\w)", False: ""}
_SHORTEST_SIGN = 3
_NO_DOCUMENTS = frozenset({ResourceType.DOCUMENT_COLLECTION, ResourceType.AGENT})


@dataclass(frozen=True, order=True)
class Finding:
    """A finding not to be shared; `cell` counts from 1, and 0 is the notebook's metadata."""

    file: str
    cell: int
    part: str
    what: str


def check_notebook(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Notebooks (.ipynb).")],
    *,
    credentials_only: Annotated[
        bool, typer.Option("--credentials-only", help="Check only for credentials, without asking the service.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Settings whose passwords and keys are checked. Default: .env, if it exists."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a notebook before you share it: find credentials and restricted documents.

    Searches sources and outputs for credentials, and outputs for names and ids of documents. Reports only documents
    that are not open to everyone in the organization; this requires an admin's key. Pictures are not searched."""
    with show_errors(Screen(as_json=as_json)) as screen:
        try:
            secrets = _secret_values(settings)
            notebooks = {str(path): _read(path) for path in files}
        except ValueError as error:
            raise usage(screen, str(error)) from error
    found = [finding for name, notebook in notebooks.items() for finding in _find_credentials(name, notebook, secrets)]
    if not credentials_only:
        with client_of(screen) as client:
            try:
                closed = _closed_documents(client, screen)
            except PermissionDeniedError as error:
                message = "The check of documents needs an admin's key. Without it, use --credentials-only."
                raise fail(screen, "refused", message, code=ExitCode.REFUSED) from error
        found += [item for name, notebook in notebooks.items() for item in _find_documents(name, notebook, closed)]
    _report(sorted(set(found)), len(notebooks), screen, looked_for_documents=not credentials_only)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        notebook: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        notebook = None
    found = cast("dict[str, Any]", notebook if isinstance(notebook, dict) else {})
    if isinstance(found.get("cells"), list):
        return found
    raise ValueError(f"{path} is not a readable notebook (.ipynb, format 4).")


def _secret_values(settings: Path | None) -> Mapping[str, str]:
    """Return the names of Carrel's secret settings by value, from the environment and a file. Raises ValueError."""
    file = settings or Path(".env")
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if settings or file.exists() else []
    except UnicodeDecodeError as exc:
        raise ValueError(f"{file} is not valid UTF-8. Save it as UTF-8, or name another file with --settings.") from exc
    given = dict(line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    values: dict[str, str] = {}
    for setting, text in (*os.environ.items(), *given.items()):
        name, value = setting.removeprefix("export ").strip(), text.strip().strip("\"'")
        if not name.startswith("CARREL_") or not _SECRET_NAMES.search(name):
            continue
        if name.endswith(("_URL", "_URI")):
            value = _password_of(value)
        if len(value) >= _SHORTEST_VALUE:
            values[value] = name
    return values


def _password_of(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


def _find_credentials(file: str, notebook: Mapping[str, Any], secrets: Mapping[str, str]) -> Iterator[Finding]:
    for cell, part, text in _cell_texts(notebook):
        found = {match[0]: f"{_KINDS[match['kind']]} (… {match[0][-4:]})" for match in _CREDENTIAL.finditer(text)}
        found |= {value: f"value of {name}" for value, name in secrets.items() if value in text}
        yield from (Finding(file, cell, part, what) for what in found.values())


def _find_documents(file: str, notebook: Mapping[str, Any], closed: Mapping[str, str]) -> Iterator[Finding]:
    outputs = [(cell, " ".join(text.split())) for cell, part, text in _cell_texts(notebook) if part == "output"]
    whole = "\n".join(text for _, text in outputs)
    named = {sign: name for sign, name in closed.items() if sign in whole}
    for cell, text in outputs:
        for sign, name in named.items():
            if re.search(rf"(?<!\w){re.escape(sign)}{_END_OF_SIGN[len(sign) < _COMPARED]}", text):
                yield Finding(file, cell, "output", f"document “{name}”")


def _cell_texts(notebook: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    yield 0, "metadata", json.dumps(notebook.get("metadata", {}), ensure_ascii=False)
    for number, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict):
            continue
        of_cell = cast("dict[str, Any]", cell)
        yield number, "source", "\n".join(_texts({**of_cell, "outputs": []}))
        for text in _texts(of_cell.get("outputs", [])):
            yield number, "output", text
            if "&" in text or "<" in text:
                yield number, "output", html.unescape(re.sub(r"<[^>]*>", " ", text))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a part of a notebook; a list of lines is a single text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            if not key.startswith(("image/png", "image/jpeg")):
                yield from _texts(member)
    elif isinstance(value, list):
        members = cast("list[Any]", value)
        if all(isinstance(member, str) for member in members):
            yield "".join(members)
        else:
            for member in members:
                yield from _texts(member)


def _closed_documents(client: "carrel.Carrel", screen: Screen) -> Mapping[str, str]:
    closed: dict[str, str] = {}
    what = "checking access"
    with screen.bar(what) as bar:
        resources = client.admin.access.list_resources
        open_to_all = {resource.object_id for resource in resources(organization_wide=True, page_size=1000)}
        listed = resources(page_size=1000).with_progress(lambda done, total: bar(what, done=done, total=total))
        for item in listed:
            if item.resource_type in _NO_DOCUMENTS or item.object_id in open_to_all:
                continue
            name = " ".join((item.name or item.resource_id).split())
            signs = (str(item.object_id), item.resource_id, name[:_COMPARED])
            closed |= {sign: name for sign in signs if len(sign) >= _SHORTEST_SIGN}
    return closed


def _report(found: list[Finding], count: int, screen: Screen, *, looked_for_documents: bool) -> None:
    code = ExitCode.PROBLEMS if found else ExitCode.DONE
    if screen.as_json:
        findings = [{"file": item.file, "cell": item.cell, "part": item.part, "what": item.what} for item in found]
        screen.json({"outcome": "problems" if found else "clean", "exitCode": code, "findings": findings})
        raise typer.Exit(code)
    for (file, cell, part), group in groupby(found, lambda finding: (finding.file, finding.cell, finding.part)):
        place = f"{file}, cell {cell}, {part}" if cell else f"{file}, {part}"
        screen.line(f"{place}: {', '.join(finding.what for finding in group)}")
    what = "credentials or documents with restricted access" if looked_for_documents else "credentials"
    files = f"{count:,} notebook{'' if count == 1 else 's'}"
    if not found:
        screen.say(f"No {what} in {files}. Images were not checked.")
        return
    advice = "Clear these outputs before you share the notebook. Revoke credentials that were shared."
    screen.say(f"{advice} Images were not checked.")
    raise typer.Exit(code)
