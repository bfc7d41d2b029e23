"""Documents of the catalog are added to a collection by what they are called, and by their metadata."""

from pathlib import Path
from typing import Any

import pytest

from flows.errors import SourceError
from flows.operations.collecting import add_to_collection
from flows.operations.options import CollectionOptions
from flows.operations.sources.selection import Selection
from flows.settings import FlowSettings
from tests.harness.documents import create_collection, ok, uploaded
from tests.harness.services import RunningService

OPTIONS = CollectionOptions(collection="Shelf")


@pytest.fixture
def service(own_service: RunningService) -> RunningService:
    """A service with a database of its own, whose rows are looked at."""
    return own_service


@pytest.fixture
def collection_id(service: RunningService) -> str:
    """An empty collection beside a catalog of four documents."""
    for name, metadata in (
        ("reports/2025/ferry.txt", '{"team": "ferries"}'),
        ("reports/2026/ferry.txt", '{"team": "ferries", "state": "final"}'),
        ("reports/2026/lamp.txt", '{"team": "lights"}'),
        ("notes/ferry.txt", "{}"),
    ):
        uploaded(service, name, f"What {name} says.", customMetadata=metadata)
    return create_collection(service, "Shelf", shelf="STRING")


def held(service: RunningService, collection_id: str) -> dict[str, dict[str, Any]]:
    """The documents of the collection by their external ids."""
    body = {"documentCollectionId": collection_id, "pageSize": 100}
    listed = ok(service.call("documentCollections/listDocumentsInCollection", body))["documents"]
    return {each["documentExternalId"]: each for each in listed}


async def test_a_selection_is_added_and_found_unchanged_again(
    service: RunningService, collection_id: str, flow_settings: FlowSettings
) -> None:
    """By external ids and metadata, with metadata for the collection; what is chosen next time is added to it."""
    options = OPTIONS.model_copy(update={"metadata": {"shelf": "upper"}})
    source = "catalog://reports/*?team=ferries"
    added = await add_to_collection(source, options=options, settings=flow_settings)
    assert (added.summary.documents, added.summary.created, added.summary.quarantined) == (2, 2, 0)
    assert {name: each["customMetadata"] for name, each in held(service, collection_id).items()} == {
        "reports/2025/ferry.txt": {"shelf": "upper"},
        "reports/2026/ferry.txt": {"shelf": "upper"},
    }
    again = await add_to_collection(source, options=options, settings=flow_settings)
    assert (again.summary.documents, again.summary.created, again.summary.unchanged) == (2, 0, 2)
    uploaded(service, "reports/2027/ferry.txt", "New.", customMetadata='{"team": "ferries"}')
    more = await add_to_collection(source, options=options, settings=flow_settings)
    assert (more.summary.created, more.summary.unchanged) == (1, 2)
    assert len(held(service, collection_id)) == 3


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("catalog://*/ferry.txt", {"reports/2025/ferry.txt", "reports/2026/ferry.txt", "notes/ferry.txt"}),
        ("catalog://?team=lights&team=ferries&state=final", {"reports/2026/ferry.txt"}),
        ("catalog://notes%2Fferry.txt", {"notes/ferry.txt"}),
        ("catalog://nothing*", set()),
    ],
)
async def test_what_is_selected(
    service: RunningService, collection_id: str, flow_settings: FlowSettings, source: str, names: set[str]
) -> None:
    """Globs across slashes, fields that must all fit, percent-encoding, and nothing at all."""
    await add_to_collection(source, options=OPTIONS, settings=flow_settings)
    assert held(service, collection_id).keys() == names


def test_a_selection_that_can_not_be_read() -> None:
    """What follows the question mark is metadata, or an error that shows how to write it."""
    with pytest.raises(SourceError, match="team=ferries"):
        Selection.read("catalog://reports/*?team")


async def test_saying_nothing_of_metadata_leaves_it_as_it_is(
    service: RunningService, collection_id: str, flow_settings: FlowSettings, tmp_path: Path
) -> None:
    """Documents that are in the collection keep what they have there, and count unchanged; what is said is set."""
    for name, shelf in (("reports/2025/ferry.txt", "upper"), ("reports/2026/ferry.txt", "upper")):
        options = OPTIONS.model_copy(update={"metadata": {"shelf": shelf}})
        await add_to_collection(f"catalog://{name}", options=options, settings=flow_settings)
    with service.owner_connection() as connection:  # one is there and can't be searched
        connection.execute(
            "UPDATE space_documents SET indexed_version = NULL WHERE document_id ="
            " (SELECT document_id FROM documents WHERE external_id = 'reports/2026/ferry.txt')"
        )
    added = (await add_to_collection("catalog://reports/*", options=OPTIONS, settings=flow_settings)).summary
    assert (added.documents, added.unchanged, added.updated, added.created) == (3, 1, 0, 2)
    assert {name: each["customMetadata"] for name, each in held(service, collection_id).items()} == {
        "reports/2025/ferry.txt": {"shelf": "upper"},
        "reports/2026/ferry.txt": {"shelf": "upper"},
        "reports/2026/lamp.txt": {},
    }
    manifest = tmp_path / "m.csv"
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Not read.")
    manifest.write_text("path,externalId,metadata.shelf\na.txt,reports/2025/ferry.txt,lower\nb.txt,notes/ferry.txt,\n")
    said = (await add_to_collection(str(manifest), options=OPTIONS, settings=flow_settings)).summary
    assert (said.documents, said.quarantined) == (2, 0)
    assert {name: each["customMetadata"].get("shelf") for name, each in held(service, collection_id).items()} == {
        "reports/2025/ferry.txt": "lower",
        "reports/2026/ferry.txt": "upper",
        "reports/2026/lamp.txt": None,
        "notes/ferry.txt": None,
    }
