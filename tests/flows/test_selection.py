"""Documents of the catalog are added to a collection by external id and metadata."""

import pytest

from flows.errors import SourceError
from flows.operations.sources.selection import Selection
from tests.harness.documents import create_collection, ok, uploaded
from tests.harness.services import RunningService
from tests.service.directory import organization_id


@pytest.fixture
def collection_id(service: RunningService) -> str:
    for name, metadata in (
        ("reports/2025/ferry.txt", '{"team": "ferries"}'),
        ("reports/2026/ferry.txt", '{"team": "ferries", "state": "final"}'),
        ("reports/2026/lamp.txt", '{"team": "lights"}'),
        ("notes/ferry.txt", "{}"),
    ):
        uploaded(service, name, f"What {name} says.", customMetadata=metadata)
    return create_collection(service, "Shelf", shelf="STRING")


def held(service: RunningService, collection_id: str) -> dict[str, dict]:
    body = {"documentCollectionId": collection_id, "pageSize": 100}
    listed = ok(service.call("documentCollections/listDocumentsInCollection", body))["documents"]
    return {each["documentExternalId"]: each for each in listed}


async def test_a_selection_is_added_and_found_unchanged_again(source, collection_id: str) -> None:
    selection, metadata = "catalog://reports/*?team=ferries", {"shelf": "upper"}
    added = (await source.add_to("Shelf", selection, metadata=metadata)).summary
    assert (added.documents, added.created, added.quarantined) == (2, 2, 0)
    assert {name: each["customMetadata"] for name, each in held(source.service, collection_id).items()} == {
        "reports/2025/ferry.txt": metadata,
        "reports/2026/ferry.txt": metadata,
    }
    again = (await source.add_to("Shelf", selection, metadata=metadata)).summary
    assert (again.documents, again.created, again.unchanged) == (2, 0, 2)
    uploaded(source.service, "reports/2027/ferry.txt", "New.", customMetadata='{"team": "ferries"}')
    more = (await source.add_to("Shelf", selection, metadata=metadata)).summary
    assert (more.created, more.unchanged) == (1, 2)
    assert len(held(source.service, collection_id)) == 3


async def test_what_is_selected(source, collection_id: str) -> None:
    for selection, names in (
        ("catalog://nothing*", set[str]()),
        ("catalog://notes%2Fferry.txt", {"notes/ferry.txt"}),
        ("catalog://?team=lights&team=ferries&state=final", {"notes/ferry.txt", "reports/2026/ferry.txt"}),
        ("catalog://*/ferry.txt", {"notes/ferry.txt", "reports/2026/ferry.txt", "reports/2025/ferry.txt"}),
    ):
        await source.add_to("Shelf", selection)
        assert held(source.service, collection_id).keys() == names, selection


def test_a_selection_that_can_not_be_read() -> None:
    with pytest.raises(SourceError, match="team=ferries"):
        Selection.read("catalog://reports/*?team")


async def test_saying_nothing_of_metadata_leaves_it_as_it_is(source, collection_id: str) -> None:
    await source.add_to("Shelf", "catalog://reports/*/ferry.txt", metadata={"shelf": "upper"})
    source.service.execute(  # one is there and can't be searched
        "UPDATE space_documents SET indexed_version = NULL, words_version = NULL WHERE document_id ="
        " (SELECT document_id FROM documents WHERE external_id = 'reports/2026/ferry.txt' AND organization_id = %s)",
        [organization_id(source.service)],
    )
    added = (await source.add_to("Shelf", "catalog://reports/*")).summary
    assert (added.documents, added.unchanged, added.updated, added.created) == (3, 1, 0, 2)
    assert {name: each["customMetadata"] for name, each in held(source.service, collection_id).items()} == {
        "reports/2025/ferry.txt": {"shelf": "upper"},
        "reports/2026/ferry.txt": {"shelf": "upper"},
        "reports/2026/lamp.txt": {},
    }
    for name in ("a.txt", "b.txt"):
        source.write(name, "Not read.")
    rows = ("a.txt,reports/2025/ferry.txt,lower", "b.txt,notes/ferry.txt,")
    said = (await source.add_to("Shelf", source.manifest("path,externalId,metadata.shelf", *rows))).summary
    assert (said.documents, said.quarantined) == (2, 0)
    found = held(source.service, collection_id).items()
    assert {name: each["customMetadata"].get("shelf") for name, each in found} == {
        "reports/2025/ferry.txt": "lower",
        "reports/2026/ferry.txt": "upper",
        "reports/2026/lamp.txt": None,
        "notes/ferry.txt": None,
    }
