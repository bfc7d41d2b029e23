"""A folder into the catalog: once, again, changed, with bad files, and as a manifest says."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from carrel import Carrel
from flows.errors import ServiceDownError
from flows.operations import jobs
from flows.operations.bulk import upload
from flows.operations.ledger.ledger import Ledger
from flows.operations.options import UploadOptions
from flows.operations.summary import Summary
from flows.settings import FlowSettings
from tests import made_files
from tests.faults.loading import Loader
from tests.harness.services import RunningService


async def _run(source: Path | str, settings: FlowSettings, **options: Any) -> dict[str, Any]:
    outcome = await upload(str(source), options=UploadOptions(**options), settings=settings)
    return outcome.summary.as_json()


def _names(service: RunningService) -> list[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return sorted(document.document_external_id for document in client.catalog.list_documents())


async def test_second_run_sends_nothing_and_a_change_sends_one(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """A folder is uploaded whole, then not at all, then only what changed."""
    first = await _run(library, flow_settings)
    assert (first["created"], first["quarantined"], first["indexing"]) == (12, 0, 0)
    assert len(_names(service)) == 12
    second = await _run(library, flow_settings)
    assert (second["unchanged"], second["sent"], second["sent_bytes"]) == (12, 0, 0)
    (library / "shelf-0" / "note-0.md").write_text("# Note 0\n\nThe timetable has changed.\n")
    third = await _run(library, flow_settings)
    assert (third["updated"], third["created"], third["unchanged"]) == (1, 0, 11)


async def test_bad_files_are_quarantined_and_the_others_arrive(library: Path, flow_settings: FlowSettings) -> None:
    """Files the service refuses each get their reason, and are not sent again while they are the same."""
    (library / "empty.md").write_bytes(b"")
    (library / "broken.pdf").write_bytes(b"%PDF-1.7 this is no PDF")
    (library / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    note = library / "shelf-0" / "note-0.md"
    figure = made_files.word(paragraphs=[("Normal", note.read_text())], picture=Image.new("RGB", (300, 300)))
    note.with_suffix(".docx").write_bytes(figure)
    note.unlink()
    outcome = await upload(str(library), options=UploadOptions(), settings=flow_settings)
    assert (outcome.summary.created, outcome.summary.failed, outcome.summary.problems) == (12, 2, 1)
    assert outcome.summary.partly_read == 1
    with Ledger(outcome.ledger) as ledger:
        ledger.join_latest()
        reasons = {failure.external_id: failure for failure in ledger.failures()}
    assert set(reasons) == {"empty.md", "broken.pdf", "picture.png"}
    assert all(failure.code.startswith("file_") and failure.message for failure in reasons.values())
    again = await _run(library, flow_settings)
    assert (again["quarantined"], again["sent_bytes"], again["unchanged"]) == (3, 0, 12)


async def test_pictures_within_files_are_read_where_that_is_asked(tmp_path: Path, flow_settings: FlowSettings) -> None:
    """Asking sends the same file again; what text recognition will read is told as waiting, not as left out."""
    figure = made_files.word(paragraphs=[("Normal", "The ferry leaves.")], picture=Image.new("RGB", (300, 300)))
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "figure.docx").write_bytes(figure)
    first = await _run(tmp_path / "shelf", flow_settings)
    assert (first["created"], first["partly_read"], first["pages_waiting"]) == (1, 1, 0)
    asked = await _run(tmp_path / "shelf", flow_settings, read_pictures=True)
    assert (asked["updated"], asked["partly_read"], asked["pages_waiting"]) == (1, 0, 1)


async def test_a_run_is_done_when_the_files_in_its_archives_are(
    tmp_path: Path, flow_settings: FlowSettings, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end all of them are documents that can be found, or left out for a reason; so it is after a break."""
    (shelf := tmp_path / "shelf").mkdir()
    inner = made_files.archive({"deep.txt": "The lighthouse is dark."})
    files = {"a.txt": "Fog.", "b.txt": "Ice.", "in.zip": inner, "tool.exe": b"MZ\x90\x00\x03\x00"}
    (shelf / "all.zip").write_bytes(made_files.archive(files))
    (shelf / "note.txt").write_text("Snow.")

    async def stop(*_args: Any, **_options: Any) -> None:
        raise ServiceDownError("It stayed away.")

    with monkeypatch.context() as broken:
        broken.setattr(jobs, "wait_until_indexed", stop)
        with pytest.raises(ServiceDownError):
            await _run(shelf, flow_settings)
    outcome = await upload(str(shelf), options=UploadOptions(), settings=flow_settings)
    summary = outcome.summary
    assert (summary.created, summary.indexing, summary.partly_read, summary.containers) == (2, 0, 1, 1)
    assert (summary.contained_files, summary.contained_waiting) == (5, 0)
    assert summary.contained_left_out == {"file_type_unsupported": 1}
    said = "1 archive or mail: 4 of 5 files read, 1 left out (1 in a format that isn't read)"
    assert said in Summary.from_json(summary.as_json()).text()
    inside = (f"all.zip!/{name}" for name in ("a.txt", "b.txt", "in.zip", "in.zip!/deep.txt"))
    assert _names(service) == ["all.zip", *inside, "note.txt"]
    again = await _run(shelf, flow_settings)
    assert (again["unchanged"], again["sent"], again["containers"]) == (2, 0, 0)


async def test_an_empty_file_is_known_before_anything_is_sent(library: Path, flow_settings: FlowSettings) -> None:
    """The plan doesn't create it, and says why; what is in the catalog under its name stays, though all else may go.

    It says how many others will be refused, as far as their names tell it.
    """
    note = library / "shelf-0" / "note-0.md"
    await _run(library, flow_settings)
    note.write_bytes(b"")
    (library / "empty.md").write_bytes(b"")
    (library / "Film.MP4").write_bytes(bytes(99))
    options = UploadOptions(delete_missing=True)
    planned = await upload(str(library), options=options, settings=flow_settings, dry_run=True)
    assert (planned.plan.sends, planned.plan.unchanged, planned.plan.delete, planned.summary.problems) == (1, 11, 0, 2)
    assert planned.plan.unread == {".mp4": 1}
    assert "1 document is in formats that can't be read (1 .mp4)" in planned.plan.unread_text()
    done = await upload(str(library), options=options, settings=flow_settings)
    assert (done.summary.sent, done.summary.deleted, done.summary.quarantined) == (0, 0, 3)


async def test_manifest_brings_access_and_metadata(
    library: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Users and groups (by name) of a manifest's rows may read just those documents, and metadata arrives."""
    with Carrel(service.api_key, service.base_url) as client:
        client.admin.users.upsert(users=[{"email": "ada@example.com"}, {"email": "bob@example.com"}])
        members = [{"type": "user", "email": "bob@example.com"}]
        client.admin.groups.upsert(groups=[{"name": "Harbour", "members": members}])
        rows = [
            {"path": "shelf-0/note-0.md", "allowedUsers": ["ada@example.com"], "metadata": {"year": "2024"}},
            {"path": "shelf-1/note-1.md", "allowedGroups": ["Harbour"], "name": "The first note"},
            {"path": "shelf-2/note-2.md", "internalPublic": True, "externalId": "everybody"},
            {"path": "shelf-0/note-3.md"},
            {"path": "shelf-0/note-6.md", "allowedGroups": ["Unknown"]},
        ]
        manifest = library / "manifest.jsonl"
        manifest.write_text("\n".join(json.dumps(row) for row in rows))
        summary = await _run(manifest, flow_settings)
        assert (summary["created"], summary["problems"]) == (4, 1)

        def readable(email: str) -> dict[str, Any]:
            return {found.document_external_id: found for found in client.catalog.list_documents(user_email=email)}

        assert set(readable("ada@example.com")) == {"shelf-0/note-0.md", "everybody"}
        assert set(readable("bob@example.com")) == {"shelf-1/note-1.md", "everybody"}
        assert readable("ada@example.com")["shelf-0/note-0.md"].custom_metadata == {"year": "2024"}
        assert readable("bob@example.com")["shelf-1/note-1.md"].document_name == "The first note"

        rows[0] |= {"allowedUsers": ["bob@example.com"]}
        manifest.write_text("\n".join(json.dumps(row) for row in rows))
        assert (await _run(manifest, flow_settings))["updated"] == 1
        assert set(readable("ada@example.com")) == {"everybody"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--direct"], []])
def test_a_run_that_is_told_to_end_says_what_stays(prefect_api: str, tmp_path: Path, options: list[str]) -> None:
    """SIGTERM, by which schedulers and `timeout` end a program, is like Ctrl-C: exit code 130, and no traceback."""
    loader = Loader(tmp_path, "http://127.0.0.1:9", name="ended", PREFECT_API_URL=prefect_api)
    loader.write(1)
    run = loader.start(*options, machine=False)
    assert run.stderr is not None
    while "waiting for the service" not in (line := run.stderr.readline()):
        assert line, "it ended before it was told to"
    run.terminate()
    ended = loader.end(run)
    assert (ended.code, "Traceback" in ended.errors) == (130, False), ended
    assert "What was done stays" in ended.errors
