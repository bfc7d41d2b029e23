"""`carrel quarantine` and deletions, as operators and scheduled jobs meet them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ended, Run
from tests.harness.services import RunningService
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

Load = Callable[..., tuple[Ended, dict[str, Any]]]


@pytest.fixture
def load(run: Run, tmp_path: Path) -> Load:
    """Run a command with --json on a data folder of the test's own; return how it ended, and its object."""

    def load(*arguments: str) -> tuple[Ended, dict[str, Any]]:
        ended = run(*arguments, "--json", CARREL_DATA_DIR=str(tmp_path / "data"), CARREL_FLOWS_OUTAGE_SECONDS="0")
        answer = json.loads(ended.out) if ended.out else {}
        assert answer.get("exitCode", ended.code) == ended.code
        return ended, answer

    return load


@pytest.fixture
def shelf(tmp_path: Path, load: Load) -> Path:
    """A folder that was uploaded: three documents arrived, and two are in quarantine."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for number in range(3):
        (folder / f"note-{number}.md").write_text(f"# Note {number}\n\nThe ferry number {number} leaves at noon.\n")
    (folder / "empty.md").write_bytes(b"")
    (folder / "broken [bold].pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    ended, counts = load("upload", "shelf", "--direct")
    assert (ended.code, counts["created"], counts["quarantined"]) == (1, 3, 2)
    return folder


def _documents(service: RunningService) -> set[str]:
    listed = service.call("catalog/listDocuments", {"pageSize": 1000}).json()["documents"]
    return {document["documentExternalId"] for document in listed}


def test_what_is_in_quarantine_is_listed_and_sent_again_once_mended(
    shelf: Path, load: Load, run: Run, service: RunningService, tmp_path: Path
) -> None:
    """`list` has each item with its reason; `retry` sends just those, ends with 1 while one is left, then with 0."""
    shown = run("quarantine", "list", CARREL_DATA_DIR=str(tmp_path / "data"))
    assert (shown.code, "! broken [bold].pdf  file_" in shown.out, "! empty.md  file_empty" in shown.out) == (
        0,
        True,
        True,
    )
    assert "2 in quarantine" in shown.err
    (shelf / "empty.md").write_text("# Not empty any more\n")
    ended, counts = load("quarantine", "retry", "shelf", "broken [bold].pdf")
    assert (ended.code, counts["created"], counts["failed"]) == (1, 0, 1)
    ended, counts = load("quarantine", "retry", "shelf")
    assert (ended.code, counts["created"], counts["failed"]) == (1, 1, 1)
    assert "empty.md" in _documents(service)
    (shelf / "broken [bold].pdf").unlink()
    ended, _ = load("upload", "shelf", "--direct")
    assert ended.code == 0
    _, answer = load("quarantine", "list", "shelf")
    assert answer["quarantine"] == []


@pytest.mark.usefixtures("shelf")
def test_what_is_ignored_no_longer_counts(load: Load) -> None:
    """An ignored document doesn't end the next run with 1, and is listed only when asked for; --undo brings it back."""
    ended, answer = load("quarantine", "ignore", "shelf", "empty.md", "broken [bold].pdf", "unknown.md")
    assert (ended.code, answer["number"], answer["unknown"]) == (1, 2, ["unknown.md"])
    ended, counts = load("upload", "shelf", "--direct")
    assert (ended.code, counts["quarantined"], counts["ignored"]) == (0, 0, 2)
    assert load("quarantine", "list")[1]["quarantine"] == []
    listed = load("quarantine", "list", "--ignored")[1]["quarantine"]
    assert [(item["document"], item["ignored"]) for item in listed] == [("broken [bold].pdf", True), ("empty.md", True)]
    assert load("quarantine", "ignore", "shelf", "empty.md", "--undo")[0].code == 0
    assert load("upload", "shelf", "--direct")[0].code == 1


@pytest.mark.usefixtures("shelf")
def test_quarantine_is_listed_wherever_one_is(load: Load, run: Run, service: RunningService, tmp_path: Path) -> None:
    """Without ledgers too, with the same members; an admin sees everybody's, and who reports it; others see theirs."""
    theirs = service.new_user("ada@example.com")
    ada = {"CARREL_DATA_DIR": str(tmp_path / "hers"), "CARREL_API_KEY": theirs}
    nothing = run("quarantine", "list", **ada)
    assert (nothing.code, nothing.out, nothing.err.strip()) == (
        0,
        "",
        "Nothing is in quarantine, and never was: no run reported any.",
    )
    (tmp_path / "hers.d").mkdir()
    (tmp_path / "hers.d" / "blank.txt").write_text(" ")
    assert run("upload", "hers.d", "--direct", **ada).code == 1
    own = json.loads(run("quarantine", "list", "--json", **ada).out)["quarantine"]
    assert [(item["document"], item["reportedBy"]) for item in own] == [("blank.txt", "ada@example.com")]
    elsewhere = run("quarantine", "list", CARREL_DATA_DIR=str(tmp_path / "elsewhere"))
    assert f"{tmp_path / 'hers.d'}, reported by ada@example.com  [{own[0]['ledger']}]" in elsewhere.out
    assert "3 in quarantine." in elsewhere.err
    every = json.loads(run("quarantine", "list", "--json", CARREL_DATA_DIR=str(tmp_path / "elsewhere")).out)
    assert len(every["quarantine"]) == 3
    assert set(every["quarantine"][0]) == {
        "source",
        "sourceId",
        "reportedBy",
        "ledger",
        "collection",
        "place",
        "document",
        "code",
        "reason",
        "since",
        "ignored",
    }
    assert load("quarantine", "ignore", own[0]["ledger"], "blank.txt")[0].code == 0
    done = run("quarantine", "list", **ada)
    assert (done.out, done.err.strip()) == ("", "Nothing is in quarantine.")
    assert run("upload", "hers.d", "--direct", **ada).code == 0
    refused = json.loads(run("quarantine", "list", every["quarantine"][0]["ledger"], "--json", **ada).out)
    assert (refused["exitCode"], "carrel quarantine list" in refused["message"]) == (2, True)


@pytest.mark.usefixtures("shelf")
def test_ledgers_that_were_never_reported_are_told(
    load: Load, run: Run, service: RunningService, tmp_path: Path
) -> None:
    """Those of a version that kept its quarantine to itself are named with what reports them, by a list or not."""
    (source,) = service.call("sources/listSources").json()["sources"]
    service.call("sources/removeSource", {"sourceId": source["sourceId"]}).raise_for_status()
    told = run("quarantine", "list", CARREL_DATA_DIR=str(tmp_path / "data"))
    retry = f"carrel quarantine retry {source['ledger']}"
    assert (told.code, told.out, retry in told.err) == (0, "", True)
    assert load(*retry.split()[1:])[0].code == 1
    listed = load("quarantine", "list", "shelf")[1]["quarantine"]
    assert [item["document"] for item in listed] == ["broken [bold].pdf", "empty.md"]


@pytest.mark.usefixtures("shelf")
def test_what_could_not_be_asked_is_said(run: Run, service: RunningService, tmp_path: Path) -> None:
    """Plans and runs of a key that may not read what is ignored say so, for people and in JSON."""
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:write")["token"]
    environment = {"CARREL_DATA_DIR": str(tmp_path / "data"), "CARREL_API_KEY": token}
    for command in (("plan", "shelf"), ("upload", "shelf", "--direct")):
        people, program = run(*command, **environment), run(*command, "--json", **environment)
        (remark,) = json.loads(program.out)["remarks"]
        said, _, _ = remark.partition("(")
        assert said == "The service did not tell what is ignored of this source "
        assert said in people.out


def test_a_source_that_nobody_loaded_is_wrong_usage(load: Load) -> None:
    """Its quarantine can't be retried or ignored; what to do is said."""
    for arguments in (("retry", "elsewhere"), ("ignore", "elsewhere", "x"), ("list", "elsewhere")):
        ended, answer = load("quarantine", *arguments)
        assert (ended.code, "carrel quarantine list" in answer["message"]) == (2, True)


def test_missing_documents_are_deleted_when_asked_and_within_the_limit(
    shelf: Path, load: Load, service: RunningService
) -> None:
    """The plan shows the deletion; more than the limit deletes nothing, says why, and ends with 1."""
    for name in ("empty.md", "broken [bold].pdf"):
        (shelf / name).unlink()
    (shelf / "note-0.md").unlink()
    held, counts = load("upload", "shelf", "--direct", "--delete-missing")
    assert (held.code, counts["outcome"], counts["deleted"]) == (1, "held_back", 0)
    assert "note-0.md" in _documents(service)
    options = ("--delete-missing", "--delete-limit", "50")
    planned, plan = load("plan", "shelf", *options)
    assert (planned.code, plan["to_delete"], "note-0.md" in _documents(service)) == (0, 1, True)
    done, counts = load("upload", "shelf", "--direct", *options)
    assert (done.code, counts["deleted"], _documents(service)) == (0, 1, {"note-1.md", "note-2.md"})
