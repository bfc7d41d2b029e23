"""One folder, one plan: the page, a schedule, the command line and the SDK plan and load it alike."""

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from app.loading.starting import Job, upload_job
from cli.app import app
from flows.deployments import read_deployments
from flows.operations.backlog import notes_of
from flows.operations.options import UploadOptions
from flows.operations.sources.documents import Access, Defaults
from tests.flows.sources import Source, note

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
    assert "12 unchanged documents keep readers beside the owner" in notes_of(kept.ledger.name).remarks[0]
    await source.load(internal_public=True)
    assert (await source.load(**ways["page"].model_dump())).summary.updated == 12
