"""A document's pages as pictures, with the passage marked that was found or cited."""

import html
import re
from urllib.parse import parse_qsl, quote_plus
from uuid import uuid4

import pytest

from app.ui.passages import mark_of_quote
from tests import made_files
from tests.app.conftest import House
from tests.app.pages import Page

MEMBER = "tove@example.test"
PAGES = [[("Anchors are dropped slowly.", 12)], [("Buoys are painted yellow.", 12)], [("Cranes rest at night.", 12)]]


@pytest.fixture(scope="module")
def rules(house: House) -> str:
    """The id of a PDF of three pages, which the admin may read."""
    house.add_people(MEMBER)
    return house.load(f"Rules {uuid4().hex[:8]}", made_files.pdf(*PAGES), file_name="rules.pdf")


def open_original(house: House, document: str, **address: str) -> Page:
    return house.open("documents", document=document, part="original", **address)


def leads_to(house: House, words: str, document: str) -> dict[str, str]:
    found = re.findall(r'href="documents\?([^"]*)"', house.open("search", q=words).shown)
    return next(address for one in found if (address := dict(parse_qsl(html.unescape(one))))["document"] == document)


def test_a_page_is_shown_with_ways_to_the_others(house: House, rules: str) -> None:
    page = open_original(house, rules)
    assert 'src="data:image/jpeg;base64,' in page.shown
    assert 'alt="Page 1 of Rules' in page.shown
    assert page.button(key="original.previous").disabled
    page = page.press("Next page").press("Next page")
    assert 'alt="Page 3 of Rules' in page.shown
    assert page.address["page"] == "3"
    assert page.button(key="original.next").disabled
    page.number_input(key="original.page.3").set_value(2).run()
    assert 'alt="Page 2 of Rules' in page.shown


def test_what_is_found_is_marked_on_its_page(house: House, rules: str) -> None:
    """A search's result leads to the page, where the passage is marked and stands beside; also from another page."""
    address = leads_to(house, "what colour have buoys", rules)
    assert (address["part"], address["chunk"], address["version"]) == ("original", "0", "1")
    assert address["at"].startswith("1_")
    assert address["search"].startswith("q=")
    page = open_original(house, rules, chunk="0", search="q=painted")
    shown = page.shown
    # Of its three pages, the one with the word that was searched for.
    assert 'alt="Page 2 of Rules' in shown
    assert shown.count("carrel-page-mark") == 1
    assert [one.value for one in page.subheader] == ["The passage"]
    assert "Buoys are <mark>painted</mark> yellow." in shown
    shown = open_original(house, rules, chunk="0", quoted=mark_of_quote("Cranes rest")).shown
    assert "<mark>Cranes rest</mark> at night." in shown
    assert 'alt="Page 3 of Rules' in shown
    page = open_original(house, rules, chunk="0", search="q=painted", page="3")
    assert 'alt="Page 3 of Rules' in page.shown
    assert 'alt="Page 2 of Rules' in page.press("Back to the passage").shown


def test_one_page_is_marked_by_its_box(house: House) -> None:
    page = open_original(house, house.load("One rule", made_files.pdf(PAGES[0], []), file_name="rule.pdf"), chunk="0")
    shown = page.shown
    assert '; the passage is marked"' in shown
    style = shown.partition('class="carrel-page-mark" style="')[2].partition('"')[0]
    edges = dict(edge.split(": ") for edge in style.split("; "))
    assert 0 < float(edges["left"][:-1]) < 10
    assert 0 < float(edges["height"][:-1]) < 5
    page = page.press("Next page")
    assert "carrel-page-mark" not in page.shown
    assert "carrel-page-mark" in page.press("Back to the passage").shown


def test_a_passage_without_boxes_is_shown_beside_its_first_page(house: House) -> None:
    """Such as of an entry that was indexed before there were boxes."""
    document = house.load("Older rules", made_files.pdf(*PAGES), file_name="older.pdf")
    with house.service.owner_connection() as connection:
        changed = connection.execute(
            "UPDATE chunks_384 SET place = place - 'boxes' WHERE document_id = %s AND place ? 'boxes'", (document,)
        )
        assert changed.rowcount > 0
    shown = open_original(house, document, chunk="0", search="q=painted").shown
    assert 'alt="Page 1 of Older rules"' in shown
    assert "Buoys are <mark>painted</mark> yellow." in shown


def test_a_passage_of_another_version_is_shown_in_that_version(house: House) -> None:
    """Whoever opens what was cited before sees the page and the mark of then, and that the document has changed."""
    name = f"Changed rule {uuid4().hex[:8]}"
    document = house.load(name, made_files.pdf(PAGES[0]), file_name="rule.pdf", document_external_id=name)
    address = leads_to(house, name, document)
    assert address["version"] == "1"
    house.load(name, made_files.pdf(PAGES[1], PAGES[2]), file_name="rule.pdf", document_external_id=name)
    shown = house.open("documents", **address).shown
    assert "This is version 1, which the passage is of. The document is at version 2 by now." in shown
    assert "carrel-page-mark" in shown
    assert "Back to the search" in shown
    assert f"search?q={quote_plus(name)}" in shown
    # Its chunks are of version 2 now, and not what was found.
    assert "Buoys" not in shown
    shown = house.open("documents", **{**address, "part": "text", "quoted": mark_of_quote("painted yellow")}).shown
    assert "The passage is of version 1, and this text of version 2" in shown
    assert "<mark>painted yellow</mark>" in shown


def test_a_row_is_marked_in_its_table(house: House) -> None:
    """The passage of a sheet is a table with the numbers of its rows; the row that was searched for is marked."""
    fees = [["Berth", "Fee in crowns"], *([f"Quay {name}", number] for name, number in (("Ash", 71), ("Elm", 72)))]
    document = house.load("Berth fees", made_files.workbook(Fees=fees), file_name="fees.xlsx")
    shown = house.open("documents", **leads_to(house, "fee at quay elm", document)).shown
    assert '<th scope="col">Row</th><th scope="col">Berth</th><th scope="col">Fee in crowns</th>' in shown
    assert '<tr><th scope="row">2</th><td>Quay Ash</td><td>71</td></tr>' in shown
    assert '<tr><th scope="row">3</th><td><mark>Quay Elm</mark></td><td><mark>72</mark></td></tr>' in shown


def test_a_text_begins_at_the_passage(house: House) -> None:
    rules = [f"Rule {number}. {'The harbour is open. ' * 80}" for number in range(4)]
    address = leads_to(house, "heron", house.load("Long rules", "\n\n".join([*rules, "The heron sleeps."])))
    assert address["part"] == "text"
    assert int(address["chunk"]) > 1
    page = house.open("documents", **address)
    shown = page.shown
    assert "heron sleeps." in shown.partition("<mark>")[2]
    assert "Rule 0." not in shown
    shown = page.press("From the beginning").shown
    assert "Rule 0." in shown
    assert "<mark>" not in shown


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ({"chunk": "0", "version": "9"}, "The passage is of version 9, which has no pages to show. This is version 1."),
        ({"page": "4"}, "There is no page 4."),
        ({"page": "-1"}, 'alt="Page 1 of'),
        ({"page": "9" * 30, "chunk": "x"}, 'alt="Page 1 of'),
        ({"chunk": "999"}, 'alt="Page 1 of'),
        ({"chunk": "0", "chunk_in": "nonsense"}, 'alt="Page 1 of'),
        ({"chunk": "0", "chunk_in": str(uuid4())}, 'alt="Page 1 of'),
    ],
)
def test_an_address_that_leads_nowhere_is_said_in_words(house, rules, address, said):
    assert said in open_original(house, rules, **address).shown


def test_pages_are_for_those_who_may_read_the_document(house: House) -> None:
    """An admin sees that there is a document, and not what is on its pages."""
    document = house.load("Theirs", made_files.pdf(PAGES[0]), file_name="t.pdf", upload_as_user_email=MEMBER)
    shown = open_original(house, document).shown
    assert "Its pages are for those who may read it." in shown
    assert "data:image" not in shown
