"""Files whose kind is left out by default: not sent, not deleted, said, and taken when asked for."""

from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from carrel.wire.collections import CustomMetadataSchema
from flows.operations.bulk import upload
from flows.operations.collecting import add_to_collection
from flows.operations.jobs import Outcome
from flows.operations.options import CollectionOptions, UploadOptions
from flows.settings import FlowSettings
from tests.harness.services import RunningService

LOCK = "shelf-0/package-lock.json"


@pytest.fixture
def project(library: Path) -> Path:
    """Twelve notes, a lock file, a stylesheet and a key."""
    (library / LOCK).write_text('{"name": "ferries", "lockfileVersion": 3}\n')
    (library / "site.css").write_text("body { color: navy }\n")
    (library / "server.pem").write_text("-----BEGIN PRIVATE KEY-----\nbm90IG9uZQ==\n-----END PRIVATE KEY-----\n")
    return library


async def _run(source: Path, settings: FlowSettings, **options: Any) -> Outcome:
    return await upload(str(source), options=UploadOptions(**options), settings=settings)


def _names(service: RunningService) -> set[str]:
    with Carrel(service.api_key, service.base_url) as client:
        return {document.document_external_id for document in client.catalog.list_documents()}


async def test_run_leaves_them_out_says_so_and_takes_them_when_asked(
    project: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """The notes alone are sent; each reason is told with an example and the option that takes what it left out."""
    outcome = await _run(project, flow_settings)
    assert (outcome.summary.created, outcome.summary.quarantined) == (12, 0)
    assert set(outcome.scanned.left_out()) == {
        f"left out as lock files: 1 (such as {LOCK}); --include 'package-lock.json' takes them",
        "left out as stylesheets: 1 (such as site.css); --include '*.css' takes them",
        "left out as keys and secrets: 1 (such as server.pem); --include '*.pem' takes them",
    }
    assert len(_names(service)) == 12
    more = await _run(project, flow_settings, include=["package-lock.json"])
    assert (more.summary.created, more.summary.unchanged) == (1, 12)
    assert _names(service) & {LOCK, "site.css", "server.pem"} == {LOCK}


async def test_what_was_sent_before_and_is_left_out_now_is_not_missing(
    project: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """It stays with `delete_missing`, and the plan counts it; asked for and gone from the source, it is deleted."""
    await _run(project, flow_settings, include=["*"])
    outcome = await _run(project, flow_settings, delete_missing=True)
    assert (outcome.plan.delete, outcome.plan.left_out, outcome.summary.left_out) == (0, 3, 3)
    assert "3 sent before and left out now, which stay" in outcome.plan.text()
    assert "3 sent before and left out now, which stay" in outcome.summary.text()
    assert outcome.summary.complete
    assert len(_names(service)) == 15
    (project / LOCK).unlink()
    gone = await _run(project, flow_settings, delete_missing=True, include=["package-lock.json"])
    assert (gone.summary.deleted, gone.plan.left_out) == (1, 2)
    assert _names(service) & {LOCK, "site.css", "server.pem"} == {"site.css", "server.pem"}


async def test_manifest_asks_for_what_it_names_and_misses_what_it_no_longer_names(
    project: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """Its rows are sent whatever their kind, and with `delete_missing` a row that is gone is deleted all the same."""
    manifest = project / "manifest.csv"
    notes = [f"shelf-{number % 3}/note-{number}.md" for number in range(12)]
    manifest.write_text("\n".join(["path", *notes, LOCK, "site.css"]))
    first = await _run(manifest, flow_settings)
    assert (first.summary.created, first.scanned.left_out()) == (14, [])
    manifest.write_text("\n".join(["path", *notes, LOCK]))
    second = await _run(manifest, flow_settings, delete_missing=True)
    assert (second.summary.deleted, second.plan.left_out) == (1, 0)
    assert "site.css" not in _names(service)


async def test_folder_that_was_loaded_is_added_to_a_collection_without_them(
    project: Path, flow_settings: FlowSettings, service: RunningService
) -> None:
    """What an upload left out of a folder is left out of its addition too, instead of going into quarantine."""
    await _run(project, flow_settings)
    with Carrel(service.api_key, service.base_url) as client:
        collection = client.document_collections.create_document_collection(
            "Project", custom_metadata_schema=CustomMetadataSchema.model_validate({"fields": []})
        )
    options = CollectionOptions(collection=str(collection.document_collection_id))
    outcome = await add_to_collection(str(project), options=options, settings=flow_settings)
    assert (outcome.summary.created, outcome.summary.quarantined) == (12, 0)
