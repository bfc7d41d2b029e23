"""`carrel quarantine` and deletions, as operators and scheduled jobs meet them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.documents import list_documents
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

MEMBERS = "source sourceId reportedBy ledger collection place document code reason since ignored"


@pytest.fixture
def shelf(library: Path, load) -> Path:
    (library / "empty.md").write_bytes(b"")
    (library / "broken [bold].pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    ended, counts = load("upload", "library", "--direct")
    assert (ended.code, counts["created"], counts["quarantined"]) == (1, 3, 2)
    return library


def test_what_is_in_quarantine_is_listed_and_sent_again_once_mended(shelf, load, run, service):
    shown = run("quarantine", "list")
    assert (shown.code, "2 in quarantine" in shown.err) == (0, True)
    assert all(line in shown.out for line in ("! broken [bold].pdf  file_", "! empty.md  file_empty"))
    (shelf / "empty.md").write_text("# Not empty any more\n")
    ended, counts = load("quarantine", "retry", "library", "broken [bold].pdf")
    assert (ended.code, counts["created"], counts["failed"]) == (1, 0, 1)
    ended, counts = load("quarantine", "retry", "library")
    assert (ended.code, counts["created"], counts["failed"]) == (1, 1, 1)
    assert "empty.md" in list_documents(service)
    (shelf / "broken [bold].pdf").unlink()
    assert load("upload", "library", "--direct")[0].code == 0
    assert load("quarantine", "list", "library")[1]["quarantine"] == []


@pytest.mark.usefixtures("shelf")
def test_what_is_ignored_no_longer_counts(load) -> None:
    ended, answer = load("quarantine", "ignore", "library", "empty.md", "broken [bold].pdf", "unknown.md")
    assert (ended.code, answer["number"], answer["unknown"]) == (1, 2, ["unknown.md"])
    ended, counts = load("upload", "library", "--direct")
    assert (ended.code, counts["quarantined"], counts["ignored"]) == (0, 0, 2)
    assert load("quarantine", "list")[1]["quarantine"] == []
    listed = load("quarantine", "list", "--ignored")[1]["quarantine"]
    assert [(item["document"], item["ignored"]) for item in listed] == [("broken [bold].pdf", True), ("empty.md", True)]
    assert load("quarantine", "ignore", "library", "empty.md", "--undo")[0].code == 0
    assert load("upload", "library", "--direct")[0].code == 1


@pytest.mark.usefixtures("shelf")
def test_quarantine_is_listed_wherever_one_is(load, run, service, tmp_path: Path) -> None:
    """Without ledgers too, with the same members; an admin sees everybody's, and who reports it; others see theirs."""
    theirs = service.new_user("ada@example.com")
    ada = {"CARREL_DATA_DIR": str(tmp_path / "hers"), "CARREL_API_KEY": theirs}
    nothing = run("quarantine", "list", **ada)
    said = "Nothing is in quarantine, and never was: no run reported any."
    assert (nothing.code, nothing.out, nothing.err.strip()) == (0, "", said)
    (tmp_path / "hers.d").mkdir()
    (tmp_path / "hers.d" / "blank.txt").write_text(" ")
    assert run("upload", "hers.d", "--direct", **ada).code == 1
    own = run("quarantine", "list", "--json", **ada).json["quarantine"]
    assert [(item["document"], item["reportedBy"]) for item in own] == [("blank.txt", "ada@example.com")]
    elsewhere = run("quarantine", "list", CARREL_DATA_DIR=str(tmp_path / "elsewhere"))
    assert f"{tmp_path / 'hers.d'}, reported by ada@example.com  [{own[0]['ledger']}]" in elsewhere.out
    assert "3 in quarantine." in elsewhere.err
    every = run("quarantine", "list", "--json", CARREL_DATA_DIR=str(tmp_path / "elsewhere")).json["quarantine"]
    assert (len(every), set(every[0])) == (3, set(MEMBERS.split()))
    assert load("quarantine", "ignore", own[0]["ledger"], "blank.txt")[0].code == 0
    done = run("quarantine", "list", **ada)
    assert (done.out, done.err.strip()) == ("", "Nothing is in quarantine.")
    assert run("upload", "hers.d", "--direct", **ada).code == 0
    refused = run("quarantine", "list", every[0]["ledger"], "--json", **ada)
    assert (refused.code, "carrel quarantine list" in refused.json["message"]) == (2, True)


@pytest.mark.usefixtures("shelf")
def test_ledgers_that_were_never_reported_are_told(load, run, service, tmp_path) -> None:
    """Those of a version that kept its quarantine to itself are named with what reports them, by a list or not."""
    (source,) = service.call("sources/listSources").json()["sources"]
    service.call("sources/removeSource", {"sourceId": source["sourceId"]}).raise_for_status()
    told = run("quarantine", "list")
    assert "never was" not in told.err
    retry = f"carrel quarantine retry {source['ledger']}"
    assert (told.code, told.out, retry in told.err) == (0, "", True)
    [ledger] = (tmp_path / "data" / "flows" / "ledgers").glob("*.sqlite*")
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE ledger_runs SET finished_at = NULL")
    assert "is being loaded for the first time" in run("quarantine", "list").err
    assert load(*retry.split()[1:])[0].code == 1
    listed = load("quarantine", "list", "library")[1]["quarantine"]
    assert [item["document"] for item in listed] == ["broken [bold].pdf", "empty.md"]


@pytest.mark.usefixtures("shelf")
def test_what_could_not_be_asked_is_said(run, service) -> None:
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:write")["token"]
    for command in (("plan", "library"), ("upload", "library", "--direct")):
        [remark] = run(*command, "--json", CARREL_API_KEY=token).json["remarks"]
        said, _, _ = remark.partition("(")
        assert said == "The service did not tell what is ignored of this source "
        assert said in run(*command, CARREL_API_KEY=token).out


def test_a_source_that_nobody_loaded_is_wrong_usage(load) -> None:
    for arguments in (("retry", "elsewhere"), ("ignore", "elsewhere", "x"), ("list", "elsewhere")):
        ended, answer = load("quarantine", *arguments)
        assert (ended.code, "carrel quarantine list" in answer["message"]) == (2, True)
