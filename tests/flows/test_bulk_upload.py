"""A folder into the catalog: once, again, changed, with bad files, and by a manifest."""

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from app.loading.starting import Job, upload_job
from cli.app import app
from flows.deployments import read_deployments
from flows.errors import ServiceDownError
from flows.operations import jobs
from flows.operations.backlog import notes_of
from flows.operations.ledger.ledger import Ledger
from flows.operations.options import UploadOptions
from flows.operations.sources.documents import Access, Defaults
from flows.operations.summary import Summary
from tests import made_files
from tests.faults.loading import Loader
from tests.flows.sources import Source, note
from tests.harness.proxy import Fault, faulty


def _with_picture(text: str) -> bytes:
    return made_files.word(paragraphs=[("Normal", text)], picture=Image.new("RGB", (300, 300)))


async def test_second_run_sends_nothing_and_a_change_sends_one(source: Source) -> None:
    first = (await source.load()).summary
    assert (first.created, first.quarantined, first.indexing) == (12, 0, 0)
    assert source.documents() == source.files()
    second = (await source.load()).summary
    assert (second.unchanged, second.sent, second.sent_bytes) == (12, 0, 0)
    source.write(note(0), "# Note 0\n\nThe timetable has changed.\n")
    third = (await source.load()).summary
    assert (third.updated, third.created, third.unchanged) == (1, 0, 11)


async def test_bad_files_are_quarantined_and_the_others_arrive(poisoned: Source) -> None:
    poisoned.write("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(100))
    poisoned.write("shelf-0/note-0.docx", _with_picture((poisoned.folder / note(0)).read_text()))
    poisoned.remove(0)
    outcome = await poisoned.load()
    assert (outcome.summary.created, outcome.summary.failed, outcome.summary.problems) == (12, 2, 1)
    assert outcome.summary.partly_read == 1
    with Ledger(outcome.ledger) as ledger:
        ledger.join_latest()
        reasons = {failure.external_id: failure for failure in ledger.failures()}
    assert set(reasons) == {"empty.md", "broken.pdf", "picture.png"}
    assert all(failure.code.startswith("file_") and failure.message for failure in reasons.values())
    again = (await poisoned.load()).summary
    assert (again.quarantined, again.sent_bytes, again.unchanged) == (3, 0, 12)


async def test_pictures_within_files_are_read_where_that_is_asked(source: Source) -> None:
    shelf = source.beside("shelf")
    shelf.write("figure.docx", _with_picture("The ferry leaves."))
    first = (await shelf.load()).summary
    assert (first.created, first.partly_read, first.pages_waiting) == (1, 1, 0)
    asked = (await shelf.load(read_pictures=True)).summary
    assert (asked.updated, asked.partly_read, asked.pages_waiting) == (1, 0, 1)


async def test_a_run_is_done_when_the_files_in_its_archives_are(source, monkeypatch) -> None:
    """After the end or an interruption, each contained file is a searchable document, or left out with a reason."""
    shelf = source.beside("shelf")
    inner = made_files.archive({"deep.txt": "The lighthouse is dark."})
    files = {"a.txt": "Fog.", "b.txt": "Ice.", "in.zip": inner, "tool.exe": b"MZ\x90\x00\x03\x00"}
    shelf.write("all.zip", made_files.archive(files))
    shelf.write("note.txt", "Snow.")

    async def stop(*_args, **_options) -> None:
        raise ServiceDownError("It stayed away.")

    with monkeypatch.context() as broken:
        broken.setattr(jobs, "wait_until_indexed", stop)
        with pytest.raises(ServiceDownError):
            await shelf.load()
    summary = (await shelf.load()).summary
    assert (summary.created, summary.indexing, summary.partly_read, summary.containers) == (2, 0, 1, 1)
    assert (summary.contained_files, summary.contained_waiting) == (5, 0)
    assert summary.contained_left_out == {"file_type_unsupported": 1}
    said = "1 archive or email: 4 of 5 files read, 1 left out (1 in a format that isn't read)"
    assert said in Summary.from_json(summary.as_json()).text()
    inside = {f"all.zip!/{name}" for name in ("a.txt", "b.txt", "in.zip", "in.zip!/deep.txt")}
    assert shelf.documents() == {"all.zip", "note.txt"} | inside
    again = (await shelf.load()).summary
    assert (again.unchanged, again.sent, again.containers) == (2, 0, 0)


async def test_an_empty_file_is_known_before_anything_is_sent(source: Source) -> None:
    await source.load()
    source.write(note(0), b"")
    source.write("empty.md", b"")
    source.write("Film.MP4", bytes(99))
    planned = await source.load(delete_missing=True, dry_run=True)
    assert (planned.plan.sends, planned.plan.unchanged, planned.plan.delete, planned.summary.problems) == (1, 11, 0, 2)
    assert planned.plan.unread == {".mp4": 1}
    assert "1 document is in formats that cannot be read (1 .mp4)" in planned.plan.unread_text()
    done = await source.load(delete_missing=True)
    assert (done.summary.sent, done.summary.deleted, done.summary.quarantined) == (0, 0, 3)


async def test_manifest_brings_access_and_metadata(source: Source) -> None:
    rows = [
        {"path": note(0), "allowedUsers": ["ada@example.com"], "metadata": {"year": "2024"}},
        {"path": note(1), "allowedGroups": ["Harbour"], "name": "The first note"},
        {"path": note(2), "internalPublic": True, "externalId": "everybody"},
        {"path": note(3)},
        {"path": note(6), "allowedGroups": ["Unknown"]},
    ]
    with source.client() as client:
        client.admin.users.upsert(users=[{"email": "ada@example.com"}, {"email": "bob@example.com"}])
        members = [{"type": "user", "email": "bob@example.com"}]
        client.admin.groups.upsert(groups=[{"name": "Harbour", "members": members}])
        manifest = source.manifest(*map(json.dumps, rows), name="m.jsonl")
        summary = (await source.load(manifest)).summary
        assert (summary.created, summary.problems) == (4, 1)

        def readable(email: str) -> dict:
            return {found.document_external_id: found for found in client.catalog.list_documents(user_email=email)}

        assert set(readable("ada@example.com")) == {note(0), "everybody"}
        assert set(readable("bob@example.com")) == {note(1), "everybody"}
        assert readable("ada@example.com")[note(0)].custom_metadata == {"year": "2024"}
        assert readable("bob@example.com")[note(1)].document_name == "The first note"

        rows[0] |= {"allowedUsers": ["bob@example.com"]}
        source.manifest(*map(json.dumps, rows), name="m.jsonl")
        assert (await source.load(manifest)).summary.updated == 1
        assert set(readable("ada@example.com")) == {"everybody"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--direct"], []])
def test_a_run_that_is_told_to_end_says_what_stays(prefect_api, service, tmp_path, options) -> None:
    """SIGTERM, used by schedulers and `timeout`, is like Ctrl-C: exit code 130, and no traceback."""
    with faulty(service.base_url) as proxy:
        loader = Loader(tmp_path, proxy.base_url, name="ended", PREFECT_API_URL=prefect_api)
        loader.write(1)
        proxy.refusal = Fault.UNAVAILABLE  # of uploads alone: what the run reports at its end gets through at once
        run = loader.start(*options, machine=False)
        assert run.stderr is not None
        while "waiting for the service" not in (line := run.stderr.readline()):
            assert line, "it ended before it was told to"
        run.terminate()
        ended = loader.end(run)
    assert (ended.code, "Traceback" in ended.errors) == (130, False), ended
    assert "Completed work stays" in ended.errors


async def test_a_name_in_another_form_of_unicode_is_the_document_that_is_there(source, monkeypatch) -> None:
    """Also for names stored decomposed by older versions."""
    decomposed, composed = "U\u0308bung.md", "\u00dcbung.md"
    with monkeypatch.context() as before:
        for module in ("service.domains.documents.catalog.queries", "flows.operations.sources.reading"):
            before.setattr(f"{module}.normalize", lambda _, name: name)
        source.write(decomposed)
        assert (await source.load()).summary.created == 13
    (source.folder / decomposed).rename(source.folder / composed)
    for _ in range(2):
        again = await source.load(delete_missing=True, delete_limit_percent=100)
        assert (again.plan.create, again.summary.deleted, len(source.documents())) == (0, 0, 13)


async def test_a_retry_asks_first_whether_the_document_has_arrived(source: Source) -> None:
    with faulty(source.service.base_url) as proxy:
        proxy.script.append(Fault.LOST_ANSWER)
        loaded = await source.using(base_url=proxy.base_url).load()
        assert (loaded.summary.created, loaded.summary.quarantined, proxy.count("catalog/uploadFile")) == (12, 0, 12)


NOBODY = UploadOptions(allowed_users=[], allowed_groups=[], internal_public=False)  # as the page sends it


def _ways(source: Source, folder: Path) -> dict[str, UploadOptions]:
    job = upload_job(str(source), NOBODY)
    assert isinstance(job, Job)
    options = "{internal_public: false, allowed_users: [], collection: '', metadata: {}, upload_as_user_email: ''}"
    (folder / "d.yaml").write_text(
        "deployments:\n- name: nightly\n  entrypoint: flows.bulk_upload.bulk_upload\n"
        f"  parameters: {{source: {source}, options: {options}}}\n"
    )
    [entry] = read_deployments(folder / "d.yaml")
    scheduled = UploadOptions.model_validate(entry.parameters["options"])
    return {"page": UploadOptions.model_validate(job.options), "schedule": scheduled, "sdk": UploadOptions()}


async def _plan_by_command(source: Source) -> str:
    ended = await asyncio.to_thread(CliRunner().invoke, app, ["plan", str(source), "--json"])
    return str(json.loads(ended.stdout)["plan"])


async def test_each_way_to_load_a_folder_plans_it_alike_and_alternating_sends_nothing(
    source: Source, tmp_path: Path, monkeypatch
) -> None:
    ways = _ways(source, tmp_path)
    for number, way in enumerate(ways):
        source.write(note(number), f"# Changed before a load by the {way}\n")
        assert (await source.load(**ways[way].model_dump())).summary.sent == (12 if number == 0 else 1), way
        plans = {one: (await source.load(dry_run=True, **ways[one].model_dump())).plan.text() for one in ways}
        plans["command"] = await _plan_by_command(source)
        assert set(plans.values()) == {"0 to create, 0 to update, 12 unchanged, 0 forbidden"}, plans
    # What the page of an earlier version has loaded, or was refused, is the same for all of them too.
    source.write("broken.pdf", b"No PDF.")
    source.write(note(0), "# Changed for the earlier version\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(UploadOptions, "defaults", lambda _: Defaults(access=Access()))
        assert (await source.load()).summary.sent == 12
    for way, options in ways.items():
        plan = (await source.load(dry_run=True, **options.model_dump())).plan
        assert (plan.sends, plan.refused, plan.unchanged) == (0, 1, 12), way
    assert "0 to create, 0 to update, 12 unchanged" in await _plan_by_command(source)
    # Whoever had readers loses them where the page names none; readers that a load without options kept are said.
    await source.load(internal_public=True)
    await source.load()
    kept = await source.load(dry_run=True, **ways["page"].model_dump())
    assert "12 unchanged documents keep readers besides the owner" in notes_of(kept.ledger.name).remarks[0]
    await source.load(internal_public=True)
    assert (await source.load(**ways["page"].model_dump())).summary.updated == 12
