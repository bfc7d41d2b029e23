"""`carrel upload`, `plan`, `collections add`, `quarantine` and deletions, as used by operators and scheduled jobs."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from PIL import Image

from flows.operations.loading import open_ledger
from flows.settings import FlowSettings
from tests import made_files
from tests.harness.documents import list_documents
from tests.harness.proxy import Fault, faulty
from tests.harness.services import RunningService
from tests.service.directory import organization_id
from tests.service.service_accounts import a_token, an_account, enable_service_accounts


def _documents(service: RunningService) -> list[str]:
    return sorted(list_documents(service))


@pytest.mark.usefixtures("library")
def test_a_plan_sends_nothing_and_an_upload_what_was_planned(load, service: RunningService) -> None:
    planned, plan = load("plan", "library", "--internal-public")
    assert (planned.code, plan["outcome"], plan["to_send"], _documents(service)) == (0, "planned", 3, [])
    done, counts = load("upload", "library", "--internal-public", "--direct")
    assert (done.code, counts["outcome"], counts["created"]) == (0, "completed", 3)
    assert _documents(service) == ["note-0.md", "note-1.md", "note-2.md"]
    again, counts = load("upload", "library", "--internal-public", "--direct")
    assert (again.code, counts["unchanged"], counts["sent_bytes"]) == (0, 3, 0)


@pytest.mark.usefixtures("library")
def test_pictures_within_files_are_read_where_that_is_asked(load, service: RunningService) -> None:
    load("upload", "library", "--direct")
    _, plan = load("plan", "library", "--read-pictures")
    _, counts = load("upload", "library", "--direct", "--read-pictures")
    assert plan["to_send"] == counts["updated"] == 3
    versions = "SELECT version, reads_pictures FROM document_versions WHERE organization_id = %s ORDER BY 1, 2"
    kept = service.execute(versions, [organization_id(service)])
    assert kept == [(1, False)] * 3 + [(2, True)] * 3
    assert load("plan", "library", "--leave-pictures")[1]["to_send"] == 3


def test_a_bad_document_ends_with_1_and_its_reason(load, library: Path, service: RunningService) -> None:
    (library / "broken.pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    done, counts = load("upload", "library", "--direct")
    assert (done.code, counts["outcome"], counts["created"], counts["failed"]) == (1, "quarantine", 3, 1)
    assert [failure["document"] for failure in counts["failures"]] == ["broken.pdf"]
    (line,) = Path(counts["quarantineFile"]).read_text().splitlines()
    assert json.loads(line)["code"].startswith("file_")
    assert len(_documents(service)) == 3


@pytest.mark.usefixtures("library")
def test_each_way_to_fail_has_its_code(load, prefect_api: str, service: RunningService, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    wrong = "svc_key_" + "wrong" * 8
    for arguments, changes, code, outcome in (
        (("nowhere",), {}, 2, "source_unreadable"),
        (("library", "--collection", "None such"), {}, 2, "name_unknown"),
        (("empty",), {}, 2, "source_unreadable"),
        (("library/*.nothing",), {}, 2, "source_unreadable"),
        (("library", "--allow-user", "bob"), {}, 2, "name_unknown"),
        (("library", "--allow-user", "nobody@example.com"), {}, 2, "name_unknown"),
        (("library", "--allow-group", str(uuid4())), {}, 2, "name_unknown"),
        (("library",), {"CARREL_FLOWS_CONCURRENCY": "none"}, 2, "usage"),
        (("library",), {"CARREL_API_KEY": wrong}, 3, "refused"),
        (("library",), {"CARREL_BASE_URL": "http://127.0.0.1:9"}, 4, "service_down"),
        (("library",), {"CARREL_DATA_DIR": str(tmp_path / "file")}, 6, "ledger_unusable"),
    ):
        ended, answer = load("upload", *arguments, "--direct", **changes)
        assert (arguments, changes, ended.code, answer["outcome"]) == (arguments, changes, code, outcome)
        assert (len(answer["message"].splitlines()), ended.err, wrong in ended.out) == (1, "", False)
        assert load("plan", *arguments, **changes)[1]["outcome"] == outcome
    settings = FlowSettings(base_url=service.base_url, data_dir=tmp_path / "data")
    with open_ledger(str(tmp_path / "library"), settings=settings) as ledger:
        ledger.begin()
        busy = load("upload", "library", "--direct"), load("upload", "library", PREFECT_API_URL=prefect_api)
    assert [(ended.code, answer["outcome"]) for ended, answer in busy] == [(5, "source_busy")] * 2
    ended, answer = load("upload", "library", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert (ended.code, answer["outcome"], "--direct" in answer["message"]) == (4, "service_down", True)


def test_documents_of_the_catalog_join_a_collection(load, library: Path) -> None:
    load("upload", "library", "--direct")
    (library / "later.md").write_text("Not uploaded")
    created, _ = load("collections", "create", "Notes", "--field", "team:STRING")
    added, counts = load("collections", "add", "Notes", "library", "--metadata", "team=pier", "--direct")
    assert (created.code, added.code, counts["created"], counts["failed"]) == (0, 1, 3, 1)
    assert [failure["code"] for failure in counts["failures"]] == ["not_in_catalog"]
    assert "hint" not in counts
    renamed, done = load("collections", "rename", "Notes", "Log")
    assert (renamed.code, done["collectionName"]) == (0, "Log")
    _, shown = load("collections", "show", "Notes")
    assert (shown["collectionName"], shown["documentCount"]) == ("Log", 3)
    _, counts = load("collections", "add", "Notes", "library", "--metadata", "team=pier", "--direct")
    assert (counts["unchanged"], counts["failed"]) == (3, 1)


@pytest.mark.usefixtures("library")
def test_where_external_ids_begin_is_said_when_none_fits(load, run, tmp_path: Path) -> None:
    load("upload", "library", "--direct")
    load("collections", "create", "Notes")
    (tmp_path / "above").mkdir()
    (tmp_path / "library").rename(tmp_path / "above" / "library")
    added, counts = load("collections", "add", "Notes", "above", "--direct")
    assert (added.code, counts["failed"]) == (1, 3)
    assert "paths below SOURCE" in counts["hint"]
    assert run("collections", "add", "Notes", "above", "--direct").out.splitlines()[-1] == counts["hint"]
    assert "catalog://GLOB?field=value" in run("collections", "add", "--help").out


def test_deletions_are_named_before_and_after(load, run, library: Path, service: RunningService) -> None:
    (library / "empty.md").write_bytes(b"")
    load("upload", "library", "--direct")
    for name in ("empty.md", "note-1.md"):
        (library / name).unlink()
    kept, plan = load("plan", "library", "--names", "names.csv")
    assert (kept.code, plan["gone"], plan["to_delete"]) == (0, 1, 0)
    gone = ["Gone from the source, kept", "note-1.md", "note-1.md"]
    [_, row] = csv.reader((library.parent / "names.csv").read_text().splitlines())
    assert row[:3] == gone == list(plan["names"][0].values())[:3]
    words = run("upload", "library", "--direct")
    assert {"Gone from the source, kept:", "- note-1.md"} < set(words.out.splitlines())
    held, plan = load("plan", "library", "--delete-missing")
    assert (held.code, plan["to_delete"], plan["deletions"]) == (1, 1, ["note-1.md"])
    refused, counts = load("upload", "library", "--delete-missing", "--direct")
    assert (refused.code, counts["outcome"]) == (1, "held_back")
    assert (counts["to_delete"], counts["deleted"], counts["deletions"]) == (1, 0, [])
    assert "--delete-limit 34" in counts["held_back"]
    assert "note-1.md" in _documents(service)
    allowed = ("library", "--delete-missing", "--delete-limit", "34")
    words = run("plan", *allowed)
    assert (words.code, words.out.splitlines()[-3:-1]) == (0, ["Would be deleted:", "- note-1.md"])
    unasked, refusal = load("upload", *allowed, "--direct")
    assert (unasked.code, "note-1.md" in refusal["message"], "--yes" in refusal["message"]) == (2, True, True)
    assert "note-1.md" in _documents(service)
    done, counts = load("upload", *allowed, "--direct", "--yes")
    assert (done.code, counts["outcome"], counts["deleted"]) == (0, "completed", 1)
    assert (counts["deletions"], _documents(service)) == (["note-1.md"], ["note-0.md", "note-2.md"])


def test_without_json_a_person_reads_the_same(run, library: Path) -> None:
    (library / "empty [bold].md").write_bytes(b"")
    figure = made_files.word(paragraphs=[("Normal", "The ferry leaves.")], picture=Image.new("RGB", (300, 300)))
    (library / "figure [bold].docx").write_bytes(figure)
    ended = run("upload", "library", "--direct")
    assert (ended.code, ended.err) == (1, "")
    assert "5 documents: 4 created, 0 updated, 0 unchanged, 1 in quarantine, 1 read only in part" in ended.out
    assert "carrel documents show DOCUMENT shows the missing parts:\n- figure [bold].docx\n" in ended.out
    assert "! empty [bold].md  file_empty: " in ended.out
    assert "4 unchanged" in run("plan", "library").out
    wrong = run("upload", "library", "--metadata", "nothing")
    assert (wrong.code, "KEY=VALUE" in wrong.err) == (2, True)


def test_what_is_left_out_is_said_with_how_to_take_it(load, run, library, service):
    (library / "yarn.lock").write_text('ferry@^1.0.0:\n  version "1.0.0"\n')
    (library / ".env").write_text("TOKEN=none\n")
    words = "skipped as lock files: 1 (such as yarn.lock); --include '*.lock' adds them"
    _, planned = load("plan", "library")
    left_out = {one["reason"]: one["examples"] for one in planned["leftOut"]}
    assert left_out == {"lock files": ["yarn.lock"], "keys and secrets": [".env"]}
    assert planned["to_send"] == 3
    assert words in run("plan", "library").out
    assert words in run("upload", "library", "--direct").out
    _, counts = load("upload", "library", "--direct", "--include", "*.lock", "--exclude", "note-0.md")
    assert (counts["created"], counts["unchanged"]) == (1, 2)
    assert _documents(service) == ["note-0.md", "note-1.md", "note-2.md", "yarn.lock"]


@pytest.mark.usefixtures("library")
def test_a_busy_service_is_told_in_its_own_words(load, service: RunningService) -> None:
    with faulty(service.base_url) as proxy:
        proxy.refusal = Fault.UNAVAILABLE
        ended, answer = load("upload", "library", "--direct", CARREL_BASE_URL=proxy.base_url)
    assert (ended.code, answer["outcome"]) == (4, "service_down")
    assert "has accepted nothing for 0 s (Later. (503 busy" in answer["message"]
    assert "away" not in answer["message"]


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
    theirs = service.new_user("ada@example.com")
    ada = {"CARREL_DATA_DIR": str(tmp_path / "hers"), "CARREL_API_KEY": theirs}
    nothing = run("quarantine", "list", **ada)
    said = "The quarantine is empty: no run has reported any items."
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
    assert (done.out, done.err.strip()) == ("", "The quarantine is empty.")
    assert run("upload", "hers.d", "--direct", **ada).code == 0
    refused = run("quarantine", "list", every[0]["ledger"], "--json", **ada)
    assert (refused.code, "carrel quarantine list" in refused.json["message"]) == (2, True)


@pytest.mark.usefixtures("shelf")
def test_ledgers_that_were_never_reported_are_told(load, run, service, tmp_path) -> None:
    (source,) = service.call("sources/listSources").json()["sources"]
    service.call("sources/removeSource", {"sourceId": source["sourceId"]}).raise_for_status()
    told = run("quarantine", "list")
    assert "no run has reported" not in told.err
    retry = f"carrel quarantine retry {source['ledger']}"
    assert (told.code, told.out, retry in told.err) == (0, "", True)
    [ledger] = (tmp_path / "data" / "flows" / "ledgers").glob("*.sqlite*")
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE ledger_runs SET finished_at = NULL")
    assert "is loading for the first time" in run("quarantine", "list").err
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
        assert said == "The service did not report the ignored items of this source "
        assert said in run(*command, CARREL_API_KEY=token).out


def test_a_source_that_nobody_loaded_is_wrong_usage(load) -> None:
    for arguments in (("retry", "elsewhere"), ("ignore", "elsewhere", "x"), ("list", "elsewhere")):
        ended, answer = load("quarantine", *arguments)
        assert (ended.code, "carrel quarantine list" in answer["message"]) == (2, True)
