"""The sample organization, loaded and removed by buttons without changes of foreign data."""

import json
from itertools import islice

from carrel import Carrel
from sample.organization import DIRECTORY, FOLDER, MANIFEST, collection_id, collection_name
from sample.removal import find_sample, remove_sample
from tests.app.loading.house import LoadingHouse, offered
from tests.service.test_questions import listed, rows_of

LOAD, REMOVE = "Load sample …", "Remove sample …"


def upload(client: Carrel, row: dict[str, str], collection) -> None:
    groups = {group.name: group.id for group in client.admin.groups.list()}
    client.catalog.upload_file(
        FOLDER / row["path"],
        document_external_id=row["externalId"],
        document_name=row["name"],
        allowed_group_ids=[groups[name] for name in listed(row["allowedGroups"])],
        collection_id=collection,
        fingerprint=row["path"],
    )


def names(items) -> set[str]:
    return {one.name for one in items}


def test_the_sample_comes_and_goes_and_nothing_else_does(house: LoadingHouse) -> None:
    client, rows = house.client, [row for row in rows_of(MANIFEST) if row["path"].endswith((".md", ".txt"))]
    client.catalog.upload_file(b"Ours.", file_name="ours.txt", document_external_id="ours")
    fields = json.loads(DIRECTORY.read_text())["collection"]["fields_before"]
    client.document_collections.create_document_collection(collection_name(), custom_metadata_schema={"fields": fields})
    refused = house.open("ingestion", job="sample").press(LOAD).shown
    assert "An earlier sample is here." in refused
    assert "without the field issued. Remove the sample, then load it again." in refused
    for item in find_sample(client).items:
        assert item.kind == "collection"
        item.remove()
    with offered(house.prefect) as loading:
        house.open("ingestion", job="sample").press(LOAD).answer(LOAD, "Load")
        (run,) = house.prefect.runs_of(loading)
    assert run["parameters"]["source"] == str(MANIFEST)
    assert run["parameters"]["options"]["collection"] == collection_name()
    collection = collection_id(client, collection_name())
    for row in rows[:3]:
        upload(client, row, collection)
    path, edited = FOLDER / rows[3]["path"], b"." * (FOLDER / rows[3]["path"]).stat().st_size
    client.catalog.upload_file(
        edited, file_name=path.name, document_external_id=rows[3]["externalId"], document_name=rows[3]["name"]
    )
    client.admin.users.upsert([{"email": "nina@example.test", "name": "Nina"}])
    groups = {group.name: group.id for group in client.admin.groups.list()}
    client.admin.groups.add_members(groups["Legal"], [{"type": "user", "email": "nina@example.test"}])
    client.catalog.upload_file(
        b"Ours.", file_name="ours.txt", document_external_id="ours", allowed_group_ids=[groups["Finance"]]
    )
    shown = house.open("ingestion", job="sample").press(LOAD).shown
    assert "Loading the sample would change it." in shown

    gone = list(islice(remove_sample(find_sample(client)), 2))  # and then the process was killed
    assert [item.kind for item in gone] == ["agent", "document"]
    page = house.open("ingestion", job="sample").press(REMOVE)
    shown = page.shown
    assert "Removes 2 documents, 1 collection, 11 groups, 12 people." in shown
    assert f"The document {rows[3]['externalId']} has other contents." in shown
    assert "The group Legal has other members: Nina." in shown
    assert "The group Finance gives access to other resources." in shown
    assert "Mei Tanaka is in Legal." in shown
    _, removed, after = page.answer(REMOVE, "Remove").shown.partition("Removed: 2 documents, 1 collection, 11 groups,")
    assert (bool(removed), "The group Legal has other members: Nina." in after) == (True, True)
    assert names(client.admin.groups.list()) == {"Legal", "Finance"}
    assert {"Mei Tanaka", "Adaeze Castellane-Reid", "Nina"} <= names(client.admin.users.list(active=True))
    assert "Jonas Abara" not in names(client.admin.users.list(active=True))
    assert {one.document_external_id for one in client.catalog.list_documents()} == {rows[3]["externalId"], "ours"}
    again = house.open("ingestion", job="sample").press(REMOVE).shown
    assert "There are no sample items to remove." in again
