"""The page of documents in its states, on the real service."""

import html
from typing import Any
from uuid import UUID, uuid4

import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from app.documents.facts import state_in, state_of
from carrel import Carrel
from carrel.wire.catalog import Document, DocumentIndexing, IndexingStatus, RecognitionStatus, TextRecognition
from tests import made_files
from tests.app.conftest import House, html_of, markdown_of
from tests.app.pressing import answer, button, press
from tests.client.samples import DOCUMENT
from tests.harness.jobs import until
from tests.oauth.flow import a_person

MEMBER = "jonas@example.test"
HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


@pytest.fixture(scope="module", autouse=True)
def _member(house: House) -> None:
    a_person(house.service, MEMBER, name="Jonas")


def load(client: Carrel, name: str, text: str | bytes = "The ferry leaves at nine.", **options: Any) -> str:
    """Put a document into the catalog; return its id."""
    uploaded = client.catalog.upload_file(
        text.encode() if isinstance(text, str) else text,
        document_external_id=options.pop("identifier", f"{name[:100]} {uuid4()}"),
        document_name=name,
        file_name=options.pop("file_name", "note.txt"),
        await_vector_store_sync=True,
        **options,
    )
    return str(uploaded.document_id)


def open_document(house: House, document: str, part: str = "about", **address: str) -> AppTest:
    """Open the page of a document."""
    page = house.open("documents", document=document, part=part, **address)
    assert not page.exception
    return page


def names(page: AppTest) -> list[str]:
    """The names that the list shows."""
    return page.dataframe[0].value["Name"].tolist() if page.dataframe else []


def test_a_member_sees_their_own_first_and_all_that_they_may_read_by_choice(house: House) -> None:
    """Others' documents come with the choice, and only those that the member may read; their own list may be empty."""
    load(house.client, "Open minutes", internal_public=True)
    load(house.client, "Board minutes")
    page = house.open("documents", signed_in_as=MEMBER)
    assert not page.exception
    assert "You have no documents of your own yet." in html_of(page)
    assert '<a href="documents?of=all"' in html_of(page)
    page.selectbox(key="filter.of").set_value("all").run()
    assert "Open minutes" in names(page)
    assert "Board minutes" not in names(page)
    assert page.query_params["of"] in ("all", ["all"])


def test_an_admin_sees_all_documents_and_narrows_them(house: House) -> None:
    """Name, kind, state and owner narrow together, and the address has them."""
    tag = uuid4().hex[:8]
    load(house.client, f"{tag} plain")
    load(house.client, f"{tag} table", "a,b\n1,2\n", file_name="t.csv")
    load(house.client, f"{tag} theirs", upload_as_user_email=MEMBER)
    assert sorted(names(house.open("documents", name=tag))) == [f"{tag} plain", f"{tag} table", f"{tag} theirs"]
    page = house.open("documents", name=tag, kind="table")
    assert names(page) == [f"{tag} table"]
    shown = page.dataframe[0].value.iloc[0]
    assert (shown["State"], shown["Type"], shown["Owner"]) == ("Searchable", "CSV", "admin")
    assert names(house.open("documents", name=tag, owner=MEMBER)) == [f"{tag} theirs"]
    assert sorted(names(house.open("documents", name=tag, of="mine"))) == [f"{tag} plain", f"{tag} table"]
    assert names(house.open("documents", name=tag, state="failed")) == []
    assert len(names(house.open("documents", name=tag, state="done"))) == 3
    assert "whole address" in html_of(house.open("documents", owner="jonas"))
    assert "No document is like that." in html_of(house.open("documents", owner="nobody@example.test"))


def test_many_documents_are_paged_by_the_service(house: House) -> None:
    """The first page has fifty, the next one the rest, and no row is on both."""
    tag = uuid4().hex[:8]
    for number in range(53):
        house.client.catalog.upload_file(
            b"a note", document_external_id=f"{tag}-{number}", document_name=f"{tag} {number}", file_name="note.txt"
        )
    page = house.open("documents", name=tag)
    first = names(page)
    page = press(page, "Next")
    second = names(page)
    assert (len(first), len(second)) == (50, 3)
    assert not set(first) & set(second)
    assert button(page, "Next").disabled


def test_choosing_a_row_opens_the_document(house: House) -> None:
    """The address names the document, and the way back leads to the same list."""
    tag = uuid4().hex[:8]
    document = load(house.client, f"{tag} only")
    page = house.open("documents", name=tag)
    page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    page.run()
    assert page.query_params["document"] in (document, [document])
    assert f"{tag} only</h2>" in html_of(page)
    assert page.query_params["name"] in (tag, [tag])
    page = press(page, "All documents")
    assert names(page) == [f"{tag} only"]


def test_a_document_tells_where_it_can_be_found_and_how_far_it_is(house: House) -> None:
    """Each place has its sentence; a stale one offers indexing again, after which it is up to date."""
    collection = house.client.document_collections.create_document_collection(f"Handbook {uuid4()}")
    where = collection.document_collection_id
    identifier = f"shelf-{uuid4()}"
    document = load(house.client, "Livestock", "Sheep travel.", identifier=identifier, collection_id=where)
    assert "Re-index" not in [one.label for one in open_document(house, document).button]
    load(house.client, "Livestock", "Goats travel.", identifier=identifier, reindex_collections=False)
    page = open_document(house, document)
    assert "Searchable: version 2 can be found, in 1 passage." in html_of(page)
    assert "The newest version isn&#x27;t what can be found here." in html_of(page)
    page = press(page, "Re-index")
    assert "isn&#x27;t what can be found here" not in html_of(page)
    places = house.client.catalog.get_document(document).indexed_in
    assert {place.indexed_version for place in places} == {2}


def test_a_document_that_could_not_be_indexed_says_why_and_what_to_do(house: House) -> None:
    """The error of the index stands at its place, and that it is being tried."""
    document = load(house.client, f"Broken {uuid4()}")
    with house.service.owner_connection() as connection:
        table = _placements(connection)
        connection.execute(
            # Claimed, so that the service doesn't mend it before the page is looked at.
            f"UPDATE {table} SET indexed_version = NULL, attempts = 9, error = %s, claimed_until = now() + '1 hour' "  # noqa: S608
            "WHERE document_id = %s",
            (f"The model refused it. {HOSTILE}", document),
        )
    page = open_document(house, document)
    assert house.client.catalog.get_document(document).indexed_in[0].status is IndexingStatus.FAILED
    assert "could not be indexed; nothing can be found" in html_of(page)
    assert html.escape(HOSTILE) in html_of(page)
    assert "The service also tries again by itself." in html_of(page)
    assert 'href="/help/troubleshooting#indexing_failed"' in html_of(page)
    page = press(page, "Re-index")
    assert "could not be indexed" not in html_of(page)
    assert house.client.catalog.get_document(document).indexed_in[0].status is IndexingStatus.DONE


def test_a_reader_is_not_offered_to_reindex(house: House) -> None:
    """Who may read a document whose index has failed sees that, and no button that would be refused."""
    document = load(house.client, f"Broken {uuid4()}", internal_public=True)
    with house.service.owner_connection() as connection:
        left_behind = "indexed_version = NULL, attempts = 9, claimed_until = now() + '1 hour'"
        connection.execute(
            f"UPDATE {_placements(connection)} SET {left_behind} WHERE document_id = %s",  # noqa: S608
            [document],
        )
    page = house.open("documents", signed_in_as=MEMBER, document=document)
    assert "could not be indexed" in html_of(page)
    assert "Re-index" not in [one.label for one in page.button]


def _placements(connection: Any) -> str:
    """The table in which an index keeps how far a document is."""
    row = connection.execute(
        "SELECT table_name FROM information_schema.columns WHERE column_name = 'indexed_version'"
    ).fetchone()
    return str(row[0])


def test_what_a_list_of_versions_leaves_out_is_said(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """And can be downloaded all the same."""
    identifier = f"versions-{uuid4()}"
    for text in ("One.", "Two.", "Three."):
        document = load(house.client, "Fares", text, identifier=identifier)
    monkeypatch.setattr("app.documents.sections.MOST_VERSIONS", 1)
    page = open_document(house, document, "versions")
    assert "… and 2 older versions" in html_of(page)
    assert page.selectbox(key="version").options == ["3", "2", "1"]


def test_every_version_can_be_had(house: House) -> None:
    """Versions are listed newest first, and the one chosen is what is downloaded."""
    identifier = f"versions-{uuid4()}"
    document = load(house.client, "Fares", "One.", identifier=identifier)
    load(house.client, "Fares", "Two.", identifier=identifier)
    page = open_document(house, document, "versions")
    assert page.selectbox(key="version").options == ["2", "1"]
    page.selectbox(key="version").set_value(1).run()
    assert not page.exception
    assert page.download_button[0].label == "Download"


def test_the_text_is_shown_as_a_place_has_it(house: House) -> None:
    """Passages are numbered from 1 and paged, in the catalog and in a collection of the caller's chunks."""
    document = load(house.client, "Rules", "Sheep travel on deck.")
    collection = house.client.document_collections.create_document_collection(f"Chunks {uuid4()}")
    where = collection.document_collection_id
    house.client.document_collections.add_document_chunks_to_collection(
        document_id=document,
        document_collection_id=where,
        chunks=[f"Rule {number}: {HOSTILE}" for number in range(1, 24)],
        custom_metadata={},
    )
    assert "Sheep travel on deck." in html_of(open_document(house, document, "text"))
    page = open_document(house, document, "text", place=str(where))
    assert html_of(page).count("carrel-chunk") == 20
    assert html.escape(f"Rule 1: {HOSTILE}") in html_of(page)
    page = press(page, "Next")
    assert html_of(page).count("carrel-chunk") == 3
    assert "<p>23</p>" in html_of(page)
    assert "evil" not in markdown_of(page)


def test_an_admin_who_may_not_read_a_document_sees_that_it_is_there_and_no_word_of_it(house: House) -> None:
    """The facts are an admin's to see; the text is not."""
    document = load(house.client, "Diary", "HERON is the word.", upload_as_user_email=MEMBER)
    assert "Diary</h2>" in html_of(open_document(house, document))
    page = open_document(house, document, "text")
    assert "There is no text to show." in html_of(page)
    assert "HERON" not in html_of(page)


def test_who_may_read_it_is_told_to_admins(house: House) -> None:
    """Grants are listed by name, and lead to the page that explains them; a member is told whom to ask."""
    group = house.client.admin.groups.upsert([{"name": f"Crew {uuid4()}"}]).groups[0]
    document = load(house.client, "Rota", upload_as_user_email=MEMBER, allowed_group_ids=[group.id])
    page = open_document(house, document, "readers")
    assert page.dataframe[0].value["Name"].tolist() == [group.name]
    assert f"who_can_read?resource=UPLOADED_DOCUMENT%3A{document}" in html_of(page)
    page = house.open("documents", signed_in_as=MEMBER, document=document, part="readers")
    assert not page.dataframe
    assert "an admin of your organization can tell you" in html_of(page)


def test_a_document_is_deleted_after_being_asked(house: House) -> None:
    """The dialog names the collections it leaves; then it is gone, and the list is shown."""
    collection = house.client.document_collections.create_document_collection(f"Shelf {uuid4()}")
    document = load(house.client, "Old", collection_id=collection.document_collection_id)
    page = press(open_document(house, document), "Delete …")
    assert "It leaves 1 collection: Shelf" in html_of(page)
    assert house.client.catalog.get_document(document)
    page = answer(page, "Delete …", "Delete")
    assert "document" not in page.query_params
    assert "This document isn&#x27;t here." in html_of(open_document(house, document))


def test_what_a_member_may_not_read_looks_like_what_is_not_there(house: House) -> None:
    """An unknown id, somebody else's document, and no id at all give the same page, byte for byte."""
    document = load(house.client, "Secret plan")
    pages = [
        html_of(house.open("documents", signed_in_as=MEMBER, document=address))
        for address in (document, "0198c5b0-0000-7000-8000-000000000000", "no-id")
    ]
    assert pages[0] == pages[1] == pages[2]
    assert "This document isn&#x27;t here." in pages[0]


def test_a_reader_is_not_offered_to_delete(house: House) -> None:
    """Only owners and admins see the button; the service would refuse it anyway."""
    document = load(house.client, "Notice", internal_public=True)
    page = house.open("documents", signed_in_as=MEMBER, document=document)
    assert "Notice</h2>" in html_of(page)
    assert "Delete …" not in [one.label for one in page.button]


def drop(house: House, *files: tuple[str, bytes, str]) -> AppTest:
    """Open the page as a member, and drop files on it."""
    page = house.open("documents", signed_in_as=MEMBER)
    return page.file_uploader[0].set_value(list(files)).run()


def test_a_member_adds_files_of_their_own(house: House) -> None:
    """Each file is the member's document, readable by them alone; a bad one stops no other and says why."""
    name = f"note-{uuid4().hex[:8]}.txt"
    page = drop(house, (name, b"The pier is closed.", "text/plain"), ("empty.txt", b"", "text/plain"))
    page = press(page, "Add")
    shown = html_of(page)
    assert "1 of 2 could not be added as you asked." in shown
    assert "Failed." in shown
    (document,) = house.client.catalog.list_documents(document_name=name)
    assert document.document_external_id == f"{MEMBER}/{name}"
    assert document.owner.name == "Jonas"
    assert not next(house.client.admin.grants.list(document.resource).pages()).organization_wide
    assert name in names(page)
    page = press(page, "Done")
    assert "could not be added" not in html_of(page)
    assert "load.collection" not in {one.key for one in page.selectbox}


def test_added_files_go_into_a_collection_too(house: House) -> None:
    """One of those that the person may change; a refusal is said, and a next version keeps the document's fields."""
    collections = house.client.document_collections
    schema = {"fields": [{"name": "port", "type": "STRING"}]}
    made = [collections.create_document_collection(f"Tides {uuid4()}", custom_metadata_schema=schema) for _ in "ab"]
    gone, there = (one.document_collection_id for one in made)
    load(house.client, "Any other", identifier=f"any-{uuid4()}")
    name = f"tide-{uuid4().hex[:8]}.txt"

    def drop_into(collection: UUID, text: bytes) -> AppTest:
        page = house.open("documents").file_uploader[0].set_value([(name, text, "text/plain")]).run()
        return page.selectbox(key="load.collection").set_value(collection).run()

    page = drop_into(gone, b"High at noon.")
    collections.delete_document_collection(gone)
    assert "Loaded, but not added to the collection." in html_of(press(page, "Add"))
    page = press(page.selectbox(key="load.collection").set_value(there).run(), "Add")
    assert "Loaded, but" not in html_of(page)
    (loaded,) = house.client.catalog.list_documents(document_name=name)
    collections.add_document_to_collection(
        document_id=loaded.document_id, document_collection_id=there, custom_metadata={"port": "Merlin"}
    )
    press(drop_into(there, b"High at one."), "Add")
    (document,) = collections.list_documents_in_collection(there)
    assert (document.document_id, document.custom_metadata) == (loaded.document_id, {"port": "Merlin"})


def test_the_same_name_again_is_the_next_version_and_everybody_may_be_let_in(house: House) -> None:
    """What a member adds again replaces their own document, and no one else's of that name."""
    name = f"rota-{uuid4().hex[:8]}.txt"
    load(house.client, name, identifier=name)
    press(drop(house, (name, b"One.", "text/plain")), "Add")
    page = drop(house, (name, b"Two.", "text/plain"))
    page.radio(key="load.readers").set_value("Everybody in the organization").run()
    page.toggle(key="load.pictures").set_value(True).run()
    press(page, "Add")
    mine = [one for one in house.client.catalog.list_documents(document_name=name) if one.document_external_id != name]
    assert [one.document_version for one in mine] == [2]
    with house.service.owner_connection() as connection:
        asked = "SELECT reads_pictures FROM document_versions WHERE document_id = %s ORDER BY version"
        assert connection.execute(asked, [mine[0].document_id]).fetchall() == [(False,), (True,)]
    assert next(house.client.admin.grants.list(mine[0].resource).pages()).organization_wide


def test_files_of_one_name_and_too_many_files_are_not_begun(house: House) -> None:
    """They would overwrite each other, or are a run's to load; nothing is sent."""
    note = ("twin.txt", b"a", "text/plain")
    page = drop(house, note, ("Twin.txt", b"b", "text/plain"))
    assert "Several files are called" in html_of(page)
    assert button(page, "Add").disabled
    page = drop(house, *((f"{number}.txt", b"a", "text/plain") for number in range(21)))
    assert "These are 21 files" in html_of(page)
    assert button(page, "Add").disabled


def test_names_of_others_are_never_markdown(house: House) -> None:
    """A hostile name is text in the list, in the detail, and in what goes with deleting it."""
    document = load(house.client, HOSTILE, custom_metadata=None)
    for part in ("about", "versions", "text", "readers"):
        page = open_document(house, document, part)
        assert html.escape(HOSTILE) in html_of(page)
        assert "<img" not in html_of(page)
        assert "evil" not in markdown_of(page)
    page = press(open_document(house, document), "Delete …")
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


@pytest.mark.parametrize("address", [{"owner": "two words@x y"}, {"name": "a\0b"}])
def test_a_service_that_refuses_is_explained(house: House, address: dict[str, str]) -> None:
    """What the service doesn't take ends in a sentence and not in a traceback."""
    page = house.open("documents", **address)
    assert not page.exception
    assert "carrel-problem" in html_of(page)


def test_an_address_that_nobody_wrote_by_the_page_is_taken_as_far_as_it_goes(house: House) -> None:
    """Choices that there are none of, and names longer than the field, are no traceback."""
    page = house.open("documents", kind="nonsense", state="?", of="them", part="x", name="x" * 5000)
    assert not page.exception
    assert "No document is like that." in html_of(page)


def test_a_document_says_what_of_it_was_not_read(house: House) -> None:
    """The page names the parts with what helps, and says nothing of a document that was read in whole."""
    mail = b"From a Mon Mar  2 10:00:00 2026\nFrom: a@b.example\n"
    mail += b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nPears\n--x\nContent-Type: image/png\n"
    mail += b"Content-Disposition: attachment; filename=a.png\n\nx\n--x--\n"
    page = open_document(house, load(house.client, "Mail", mail.decode(), file_name="a.mbox"))
    assert "Not read, so that nobody finds it: 1 attachment (message 1). Add attachments and embedded files" in html_of(
        page
    )
    assert "Not read" not in html_of(open_document(house, load(house.client, "Whole")))
    scan = made_files.scanned(made_files.scan("Pears"), kind="PNG")
    waiting = html_of(open_document(house, load(house.client, "Scan", scan, file_name="a.png")))
    assert "Read by machine, which makes mistakes: 0 of 1 page. 1 page is still being read." in waiting
    assert "Not read" not in waiting
    icon = made_files.word(paragraphs=[("Normal", "Pears")], picture=Image.new("RGB", (20, 20)))
    helps = "Load the file again with its pictures"
    for asked in (None, True):
        figure = load(house.client, "Figure", icon, identifier="figure", file_name="a.docx", read_pictures=asked)
        with house.service.owner_connection() as connection:
            # As where it could not be read.
            left = (
                'UPDATE document_versions SET not_read = \'[{"kind": "picture", "count": 1}]\' WHERE document_id = %s'
            )
            connection.execute(left, [figure])
        shown = html_of(open_document(house, figure))
        assert "Not read, so that nobody finds it: 1 picture" in shown
        assert (helps in shown) == (asked is None)


def test_an_archive_and_the_files_in_it_lead_to_each_other(house: House) -> None:
    """The page of the archive lists its files, and that of a file names the archive; the list of documents has how many
    there are, and these where something is looked for.
    """
    files = {"in/one.txt": "One.", "tool.exe": b"MZ\x90\x00"}
    archive = load(house.client, "Box", made_files.archive(files), file_name="box.zip")
    until(lambda: house.client.catalog.get_document(archive).files_done == 2)
    shown = html_of(open_document(house, archive))
    assert "one.txt</a>" in shown
    assert "1 of 2 files read, 1 left out" in shown
    assert "tool.exe" in shown
    [inside] = house.client.catalog.list_documents(parent_document_id=archive)
    assert "In: Box</a>" in html_of(open_document(house, str(inside.document_id)))
    page = house.open("documents")
    first = page.dataframe[0].value.iloc[0]
    assert (first["Name"], first["Type"], "one.txt" in names(page)) == ("Box", "ZIP, 2 files within", False)
    assert all("one.txt" in names(house.open("documents", **chosen)) for chosen in ({"files": "all"}, {"name": "one"}))


def test_a_document_without_text_is_not_called_searchable() -> None:
    """The list says so once it is indexed, or that it is still being read by machine."""
    document = Document.model_validate({**DOCUMENT, "indexing": "DONE"})
    for is_being_read, said in ((False, "No text"), (True, "Being read")):
        document = document.model_copy(update={"is_being_read": is_being_read})
        states = [state_of(document.model_copy(update={"chunk_count": count})) for count in (None, 0, 2)]
        assert states == ["Searchable", said, "Searchable"]


@pytest.mark.parametrize(
    ("chunks", "pages_read", "pictures", "said"),
    [
        (3, None, 0, "Searchable: version 1 can be found, in 3 passages. Language: German."),
        (0, None, 0, "Not searchable: there is no text in it. Its name is listed."),
        (0, 1, 0, "Not searchable yet: 1 page is still being read."),
        (
            3,
            0,
            0,
            "Searchable: version 1 can be found, in 3 passages. More of it will be: 2 pages are still being read.",
        ),
        (0, 0, 1, "Not searchable yet: 2 pages and 1 picture are still being read."),
        (0, 2, 1, "Not searchable yet: 1 picture is still being read."),
    ],
)
def test_a_document_without_all_of_its_text_is_not_said_to_be_found(
    chunks: int, pages_read: int | None, pictures: int, said: str
) -> None:
    """Its pages are still being read, or there is no text in it."""
    place = DocumentIndexing(
        document_version=1,
        indexed_version=1,
        status=IndexingStatus.DONE,
        chunk_count=chunks,
        language="de" if pages_read is None else None,
    )
    recognition = None
    if pages_read is not None:
        running = RecognitionStatus.RUNNING
        recognition = TextRecognition(status=running, pages=2, pages_read=pages_read, pages_failed=0, pictures=pictures)
    assert state_in(place, recognition) == said
    again = place.model_copy(update={"status": IndexingStatus.RUNNING, "document_version": 2})
    found = "version 1 can be found" if chunks else "nothing can be found"
    assert state_in(again) == f"Being indexed: version 2; until then {found}."
