"""The page of collections on the real service."""

import html
from uuid import uuid4

import pytest
import streamlit as st

from app import navigation
from app.auth import current
from app.document_collections import values, values_file
from app.ui.progress import csv_of_pages
from service.index.rebuilds.running import rebuild_all
from tests import made_files
from tests.app.conftest import VIEWS, House, sign_in
from tests.app.pages import MARKUP, SECONDS, Page
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.harness.jobs import until
from tests.service.directory import user

MEMBER, EDITOR = "jonas@example.test", "edith@example.test"
TEAM_AND_SECRET = {"fields": [{"name": "team", "type": "STRING"}, {"name": "secret", "type": "BOOLEAN"}]}
OPERATIONS = {"team": "operations", "secret": "true"}


@pytest.fixture(scope="module", autouse=True)
def _people(house: House) -> None:
    house.add_people(MEMBER, EDITOR)


def open_collection(house: House, collection: str, part: str = "documents", **options) -> Page:
    return house.open("collections", collection=collection, part=part, **options)


def inside(house: House, collection: str) -> dict[str, int | None]:
    listed = house.client.document_collections.list_documents_in_collection(collection)
    return {one.document_name: one.indexed_version for one in listed}


def fields_in(house: House, collection: str) -> dict[str, dict[str, str]]:
    listed = house.client.document_collections.list_documents_in_collection(collection)
    return {one.document_name: one.custom_metadata for one in listed}


def a_shelf(house: House, *names: str) -> tuple[str, list[str]]:
    return house.add_collection(custom_metadata_schema=TEAM_AND_SECRET), [house.load(name) for name in names]


def test_a_member_without_a_collection_to_look_after_is_told_so(house: House) -> None:
    page = house.open("collections", signed_in_as=MEMBER)
    assert "for editors of a collection" in page.shown
    assert not page.button
    collection = house.add_collection()
    house.grant("DOCUMENT_COLLECTION", collection, user(EDITOR), role="EDITOR")
    page = open_collection(house, collection, "about", signed_in_as=EDITOR)
    assert "your role: editor" in page.shown
    assert "Delete …" not in page.labels


def test_a_collection_is_made_with_its_fields(house: House) -> None:
    name = f"Handbook {uuid4()}"
    page = house.open("collections").press("New collection")
    assert "Enter a name for the collection." in page.press("Create").shown
    page.text_input(key="new.name").set_value(name)
    for number, (field, kind) in enumerate([("team", "Text"), ("pages", "Whole number"), (" ", "Text")]):
        page.text_input(key=f"new.fields.{number}.name").set_value(field)
        page.selectbox(key=f"new.fields.{number}.type").set_value(kind)
        page.run()
    page.text_input(key="new.fields.0.choices").set_value("red; sea air;;red")
    page.text_input(key="new.fields.2.name").set_value("team ")
    page = page.press("Create")
    assert "Two fields have the same name: team." in page.shown
    page.text_input(key="new.fields.2.name").set_value("")
    page = page.press_twice("Create")
    assert "taken" not in page.shown
    (made,) = house.client.document_collections.list_document_collections(collection_name=name)
    fields = made.custom_metadata_schema.fields
    assert [(field.name, field.type) for field in fields] == [("team", "STRING"), ("pages", "INT")]
    assert [field.choices for field in fields] == [["red", "sea air"], None]
    assert page.address["collection"] == str(made.document_collection_id)
    [row] = house.open("collections", name=name).rows()
    assert (row["Name"], row["Documents"], row["Your role"]) == (name, 0, "Owner")


def test_values_are_chosen_among_the_choices_of_a_field(house: House) -> None:
    fields = [{"name": "team", "type": "STRING", "choices": ["air", "sea"]}]
    fields += [{"name": "tags", "type": "LIST", "choices": ["red", "blue"]}]
    collection, name = house.add_collection(custom_metadata_schema={"fields": fields}), f"{uuid4()}"
    house.load(name)
    shown = open_collection(house, collection, "add").shown
    assert f"documents?of=all&amp;rows=choose&amp;into={collection}" in shown
    page = (
        house.open("documents", name=name, of="all", rows="choose", into=collection)
        .choose(0)
        .press("Add to a collection …")
    )
    assert page.selectbox(key="chosen.add.collection").value == collection
    page.selectbox(key=f"chosen.add.{collection}.0").set_value("sea")
    page.multiselect(key=f"chosen.add.{collection}.1").set_value(["red", "blue"]).run()
    page.press_key("chosen.add.submit")
    assert fields_in(house, collection) == {name: {"team": "sea", "tags": "red; blue"}}
    page = open_collection(house, collection, "fields")
    page.selectbox(key="fields.chosen").set_value("tags").run()
    page.text_input(key="fields.tags.choices").set_value("blue").run()
    assert "1 document: no value that fits" in page.press("Preview changes").shown


def edit(page: Page, edits: dict[str, dict[str, str]]) -> Page:
    page.session_state[page.dataframe[0].key] = {"edits": edits}
    return page.run()


def test_documents_are_filtered_and_sorted_by_values_and_exported(house: House) -> None:
    collection, documents = a_shelf(house, "Dunlin", "Knot", "Ruff")
    for document, team in zip(documents, ("waders", "=sum(1)", "Waders"), strict=True):
        house.add_to(collection, document, team=team, secret="true")
    page = open_collection(house, collection, **{"sort": "down.team", "field.gone": "Oslo"})
    assert page.column("Name")[2] == "Knot"
    team = page.selectbox(key="filter.field.team")
    assert [label.casefold() for label in team.options] == ["team: any", "waders (2)", "=sum(1) (1)"]
    assert page.selectbox(key="filter.field.secret").options == ["secret: Any", "yes (3)"]
    page = page.press("Export as CSV")
    heads, *lines = page.exported.splitlines()
    assert heads == "Document id,External id,Name,team,secret"
    assert lines[2].endswith("Knot,'=sum(1),true")
    page.selectbox(key="filter.field.team").set_value("=sum(1)").run()
    assert (page.column("Name"), page.address["field.team"]) == (["Knot"], "=sum(1)")


def test_values_are_edited_in_the_rows(house: House) -> None:
    collection, (there,) = a_shelf(house, "Dunlin")
    house.add_to(collection, there, **OPERATIONS)
    page = open_collection(house, collection)
    assert page.cells("team", "secret") == [("operations", "yes")]
    page = edit(page.press("Edit values"), {"0": {"2": "maybe"}})
    assert "The field is yes or no: write yes or no." in page.shown
    assert page.find_button("Save").disabled
    page = edit(page, {"0": {"1": "Knot", "2": ""}}).press("Save")
    assert fields_in(house, collection) == {"Dunlin": {"team": "Knot"}}
    assert page.cells("team", "secret") == [("Knot", "")]
    box = house.load("Box", made_files.archive({"one.txt": "One."}), file_name="box.zip")
    house.add_to(collection, box, team="Knot")
    until(lambda: len(inside(house, collection)) == 3)
    page = open_collection(house, collection, sort="up.team").press("Edit values")
    assert ("Files in an archive" in page.shown, set(page.column("Name"))) == (True, {"Dunlin", "Box"})
    house.client.document_collections.change_fields(collection, [{"field": "team", "name": "unit"}])
    st.cache_data.clear()
    page = edit(page, {"0": {"1": "Dunlin"}})
    st.cache_data.clear()
    page = page.run().press("Save")
    assert "/help/troubleshooting#invalid_metadata" in page.shown
    assert page.column("Name")


def test_a_value_that_another_person_saved_first_is_shown_beside_ones_own(house: House) -> None:
    collection, (there, other) = a_shelf(house, "Dunlin", "Ruff")
    for document in (there, other):
        house.add_to(collection, document, **OPERATIONS)
    page = open_collection(house, collection, sort="up.team").press("Edit values")
    edits = {str(number): {"1": f"mine {number}"} for number in (0, 1)}
    mine = dict(zip(page.column("Name"), ("mine 0", "mine 1"), strict=True))
    house.add_to(collection, there, team="theirs", secret="false")
    page = edit(page, edits).press("Save")
    assert f"<td>team</td><td>{mine['Dunlin']}</td><td>theirs</td>" in page.shown
    assert "Your values for them are not saved yet." in page.shown
    assert {name: values["team"] for name, values in fields_in(house, collection).items()} == {
        "Dunlin": "theirs", "Ruff": mine["Ruff"],
    }  # fmt: skip
    page.press("Save mine")
    assert fields_in(house, collection)["Dunlin"] == {"team": mine["Dunlin"], "secret": "false"}


def load_file(page: Page, text: str, encoding: str = "utf-8") -> Page:
    page.file_uploader[0].set_value(("values.csv", text.encode(encoding), "text/csv"))
    return page.run()


def test_a_file_changes_values_after_a_preview_that_names_them(house: House, monkeypatch) -> None:
    monkeypatch.setattr(values, "MOST_AT_ONCE", 1)
    collection, documents = a_shelf(house, "Dunlin", "Knot", "Ruff", "Ruff")
    for document in documents:
        house.add_to(collection, document, **OPERATIONS)
    page = open_collection(house, collection)
    lines = [
        "Name,note,team,secret",
        "Dunlin,x,Möwe,",
        "Knot,x,operations,perhaps",
        "Gull,x,a,no",
        "Ruff,x,a,no",
        "Dunlin,x,b,no",
    ]
    for number, (encoding, sign) in enumerate((("utf-8-sig", ","), ("utf-16", "\t"), ("cp1252", ";"))):
        text = "\r\n".join(lines).replace(",", sign).replace("Möwe", f"Möwe {number}")
        page = load_file(page, text, encoding)
        told = page.shown
        was = f"Möwe {number - 1}" if number else "operations"
        assert f"<td>Dunlin</td><td>team</td><td>{was}</td><td>Möwe {number}</td>" in told
        assert ("<td>Dunlin</td><td>secret</td><td>yes</td><td>Empty</td>" in told) == (number == 0)
        assert "1 document will change, 0 will not." in told
        assert "These columns are ignored: note." in told
        assert "<td>3</td><td>secret: The field is yes or no: write yes or no.</td>" in told
        assert "<td>4</td><td>This collection has no document that you can read with the name “Gull”.</td>" in told
        assert "<td>5</td><td>2 documents have the name “Ruff”. Add the column “External id”.</td>" in told
        assert "<td>6</td><td>An earlier line has the same document.</td>" in told
        page = page.press("Save")
        assert fields_in(house, collection)["Dunlin"] == {"team": f"Möwe {number}"}
        assert "will change" not in page.shown, "the file is gone"
    page = load_file(page, f"Document id,team\n{documents[0]},a\n{documents[1]},b\n")
    house.add_to(collection, documents[1], team="theirs", secret="true")
    page = page.press("Save")
    assert "<td>Knot</td><td>team</td><td>b</td><td>theirs</td>" in page.shown
    assert [fields_in(house, collection)[name]["team"] for name in ("Dunlin", "Knot")] == ["a", "theirs"]
    page.press("Keep theirs")
    assert fields_in(house, collection)["Knot"]["team"] == "theirs"


def test_an_exported_file_with_many_lines_is_compared(house: House, monkeypatch) -> None:
    collection, documents = a_shelf(house, "Dunlin")
    house.add_to(collection, documents[0], team="'=1+1")
    place = house.client.document_collections.list_documents_in_collection(collection)
    one, *_ = list(place)
    many = [one.model_copy(update={"document_id": uuid4()}) for _ in range(10_000)]
    monkeypatch.setattr(values_file, "_fetch_documents", lambda *_: many)
    heads = ["Document id", "External id", "Name", "team", "secret"]
    rows = [[str(each.document_id), each.document_external_id, each.document_name, "'=1+1", ""] for each in many]
    of = next(
        each
        for each in house.client.document_collections.list_document_collections(page_size=1000)
        if str(each.document_collection_id) == collection
    )
    same = values_file.read_preview(of, csv_of_pages(heads, [rows], count=lambda _: None, most=10_000))
    assert (same.unchanged, same.edits, same.problems) == (10_000, {}, [])
    text = "\n".join(f"{each.document_id},new {number},WAHR" for number, each in enumerate(many))
    new = values_file.read_preview(of, f"Document id,team,secret\n{text}".encode())
    assert (len(new.edits), new.edits[9_999], new.problems) == (10_000, {"team": "new 9999", "secret": "true"}, [])
    schema = of.custom_metadata_schema
    strict = schema.model_copy(update={"fields": [one.model_copy(update={"required": True}) for one in schema.fields]})
    text = f'Document id,team\n{many[0].document_id},\n,new\n{many[1].document_id},"new\n'
    wrong = values_file.read_preview(of.model_copy(update={"custom_metadata_schema": strict}), text.encode())
    assert (wrong.edits, [line for line, _ in wrong.problems]) == ({}, [2, 3, 4])
    assert "cannot be read" in values_file.read_preview(of, b"x" * 200_000).problems[0][1]
    assert wrong.problems[:2] == [
        (2, "team: The field is required."),
        (3, "The line has no document id, external id or name."),
    ]


def test_stale_documents_are_looked_for_and_indexed_again(house: House) -> None:
    collection = house.add_collection()
    house.load("Rules", "Sheep travel.", document_external_id="rules", collection_id=collection)
    house.load("Fares", collection_id=collection)
    assert "No documents are stale." in open_collection(house, collection).press("Find stale documents").shown
    house.load("Rules", "Goats travel.", document_external_id="rules", reindex_collections=False)
    page = open_collection(house, collection)
    assert sorted(page.column("State")) == ["Searchable", "Stale"]
    page = page.press("Find stale documents")
    assert "1 stale document that you can read" in page.shown
    assert "Done: 1 document." in page.press("Re-index all").shown
    assert inside(house, collection) == {"Rules": 2, "Fares": 1}


def test_a_chosen_document_is_taken_out_after_being_asked(house: House) -> None:
    collection = house.add_collection()
    document = house.load("Rota", collection_id=collection)
    page = open_collection(house, collection).choose()
    assert f"documents?document={document}" in page.shown
    page = page.press("Remove …")
    assert inside(house, collection) == {"Rota": 1}
    page.answer("Remove …", "Remove")
    assert inside(house, collection) == {}
    assert house.client.catalog.get_document(document)


def test_a_reader_sees_what_is_in_it_and_changes_nothing(house: House) -> None:
    mine, theirs = house.add_collection(), house.add_collection(custom_metadata_schema=TEAM_AND_SECRET)
    house.load("Open", collection_id=theirs, internal_public=True)
    for collection, role in ((mine, "EDITOR"), (theirs, "VIEWER")):
        house.grant("DOCUMENT_COLLECTION", collection, user(EDITOR), role=role)
    page = open_collection(house, theirs, "index", signed_in_as=EDITOR)
    assert page.column("Name") == ["Open"]
    assert page.labels == ["All collections", "Filters", "Export as CSV"]


def test_an_index_is_made_anew_watched_and_given_up(house: House, embeddings: EmbeddingsEndpoint) -> None:
    house.add_collection(embeddings_model=MODEL)  # which lets the page know of the model
    collection = house.add_collection()
    house.load(f"Stubborn {MARKUP}", "stubborn words", collection_id=collection)
    embeddings.refuse("stubborn")
    page = open_collection(house, collection, "index")
    page = page.selectbox(key="rebuild.model").set_value(MODEL).run().press("Rebuild …")
    page.selectbox(key="rebuild.model").set_value(MODEL)
    page = page.answer("Rebuild …", "Rebuild")
    house.service.run(rebuild_all(house.service.runtime.indexer, house.service.runtime.disk))
    page = open_collection(house, collection, "index")
    shown = page.shown
    assert "Searches use the old index." in shown
    assert "1 document failed." in shown
    assert html.escape(MARKUP) in shown
    page.press("Stop the rebuild …").answer("Stop the rebuild …", "Stop the rebuild")
    assert "Cancelled" in open_collection(house, collection, "index").shown
    listed = house.client.document_collections.list_document_collections()
    models = {str(one.document_collection_id): one.embeddings_model for one in listed}
    assert models[collection] != MODEL


def fill(page: Page, chosen: str, **values) -> Page:
    page.selectbox(key="fields.chosen").set_value(chosen).run()
    for name, value in values.items():
        kind = page.selectbox if name == "type" else page.checkbox if isinstance(value, bool) else page.text_input
        kind(key=f"fields.{chosen}.{name}").set_value(value)
    assert "Save" not in page.run().labels, "before its preview"
    return page.press("Preview changes")


def test_a_field_is_added_and_another_is_converted_after_its_plan(house: House) -> None:
    collection, (there, other) = a_shelf(house, "Dunlin", "Ruff")
    for document, team in ((there, "12"), (other, "abc")):
        house.add_to(collection, document, team=team)
    page = open_collection(house, collection, "fields")
    assert "Save" not in page.labels
    page = fill(page, "", name="pages", type="Whole number", value="many")
    assert "write it like 1200" in page.shown
    page = fill(page, "", value="1,200", required=True)
    assert "2 documents: the empty field gets the value" in page.shown
    assert "New documents then need a value. Syncs, and uploads without a value, are refused." in page.shown
    page.text_input(key="fields..choices").set_value("1200; 7")  # sent with the press, and not previewed
    assert "The form has changed." in page.press("Save").shown
    page = fill(page, "", type="Yes or no", value="no", choices="")
    assert "<td>Dunlin</td><td>Empty</td><td>no</td>" in page.shown
    page = fill(page, "", type="Whole number", value="1,200").press("Save")
    assert page.text_input(key="fields..name").value == ""
    page = fill(page, "team", name="size", type="Whole number")
    assert "<td>Ruff</td><td>abc</td><td>Empty</td>" in page.shown
    assert page.find_button("Save").disabled
    house.client.document_collections.change_fields(collection, [{"field": "secret", "name": "hidden"}])
    page.checkbox(key="fields.empty").check().run().press("Save")
    assert "Nothing is saved. Check the new preview." in page.shown
    assert "team (Text), hidden (Yes or no), pages (Whole number)" in page.shown
    assert page.text_input(key="fields.team.name").value == "size"
    page.press("Save")
    assert fields_in(house, collection) == {"Dunlin": {"size": "12", "pages": "1200"}, "Ruff": {"pages": "1200"}}
    assert page.selectbox(key="fields.chosen").value == ""
    house.load("Dunlin new")
    page = house.open("documents", name="Dunlin new", rows="choose", into=collection).choose(0)
    page = page.press("Add to a collection …")
    assert ("whole number, required" in page.shown, page.button(key="chosen.add.submit").disabled) == (True, True)


def test_a_collection_is_renamed_by_its_owner(house: House) -> None:
    collection, other = house.add_collection(f"Old {uuid4()}"), house.add_collection()
    page = open_collection(house, collection, "about").press("Rename")
    page.query_params["collection"] = other
    assert "rename_collection.submit" not in [one.key for one in page.run().button]  # it is the former one's dialog
    page.query_params["collection"] = collection
    name = f"New {uuid4()}"
    page.run().text_input(key="collection.name").set_value(name).run().press_key("rename_collection.submit")
    assert name in open_collection(house, collection, "about").shown


def test_a_collection_is_deleted_after_its_name_is_typed(house: House) -> None:
    name = f"Old {uuid4()}"
    collection = house.add_collection(name)
    document = house.load("Kept", collection_id=collection)
    page = open_collection(house, collection, "about").press("Delete …")
    assert page.button(key="confirm.yes").disabled
    page.text_input(key="confirm.name").set_value(name)
    page.press_key("delete")
    assert not page.button(key="confirm.yes").disabled
    page.text_input(key="confirm.name").set_value(name)
    assert "collection" not in page.answer("Delete …", "Delete").query_params
    assert not list(house.client.document_collections.list_document_collections(collection_name=name))
    assert house.client.catalog.get_document(document)


def test_names_of_others_are_never_markdown(house: House) -> None:
    schema = {"fields": [{"name": MARKUP, "type": "STRING"}]}
    collection = house.add_collection(MARKUP, custom_metadata_schema=schema)
    house.load(MARKUP, collection_id=collection)
    for part in ("documents", "add", "fields", "index", "about"):
        open_collection(house, collection, part).assert_shown_as_text(MARKUP)


@pytest.mark.parametrize(("email", "shown"), [(MEMBER, False), (EDITOR, True)])
def test_the_navigation_has_collections_for_those_who_look_after_one(house, monkeypatch, email, shown):
    house.grant("DOCUMENT_COLLECTION", house.add_collection(), user(EDITOR), role="EDITOR")
    cookie = sign_in(house.service, email)
    monkeypatch.setattr(current, "_cookie", lambda: cookie)
    seen: list[bool] = []
    kept = navigation.pages

    def pages(*, is_admin: bool, is_editor: bool = False):
        found = kept(is_admin=is_admin, is_editor=is_editor)
        seen.extend(page.visibility == "visible" for page in found if page.url_path == "collections")
        return found

    monkeypatch.setattr(navigation, "pages", pages)
    st.cache_data.clear()
    Page(VIEWS.parent / "main.py", default_timeout=SECONDS).run()
    assert seen == [shown]
