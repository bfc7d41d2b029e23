"""The page of quality in its states, and reading judgements."""

import html
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from app.quality.judging import MOST_QUERIES, Comparison, JudgementsError, Scores, Setting, read
from app.quality.log import share
from app.search.queries import CATALOG
from carrel import Carrel
from carrel.wire.search import SearchMode
from tests.app.conftest import House, html_of, markdown_of
from tests.app.pressing import press
from tests.app.test_chat import address
from tests.oauth.flow import a_person

HOSTILE = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"


def load(client: Carrel, name: str, text: str) -> None:
    """Put a document into the catalog under an external id that is its name."""
    client.catalog.upload_file(
        text.encode(),
        document_external_id=name,
        document_name=name,
        file_name="note.txt",
        await_vector_store_sync=True,
    )


def draw(house: House, part: str = "overview", **address: str) -> AppTest:
    """Open a part of the page."""
    page = house.open("quality", part=part, **address)
    assert not page.exception
    return page


def figures(page: AppTest) -> dict[str, str]:
    """The figures at the top, by what they are called."""
    return {metric.label: metric.value for metric in page.metric}


def test_before_anybody_has_searched_every_part_says_what_it_is_for(house: House) -> None:
    """Empty logs are said calmly, and a share of nothing is no number."""
    page = draw(house)
    assert "Nobody has searched in this time." in html_of(page)
    assert figures(page)["Searches"] == "0"
    assert "%" not in figures(page)["Without results"]
    assert "Every search found something." in html_of(draw(house, "without"))
    for part in ("overview", "without", "down"):
        page = draw(house, part)
        assert not page.caption, part
        assert ("audit_log?action=agent.feedback" in html_of(page)) is (part != "without")
    assert "No search has been given thumbs down." in html_of(page)


def test_searches_are_counted_and_drawn(house: House) -> None:
    """The figures are those of the log, and a chart has a bar for each step; a week is longer than a day."""
    load(house.client, "Livestock", "Sheep travel on deck.")
    found = house.client.search.search_document_catalog("sheep", mode="LEXICAL")
    house.client.search.search_document_catalog("zeppelin", mode="LEXICAL")
    page = draw(house)
    assert len(page.get("vega_lite_chart")) == 1
    assert "No search of this time was given a thumb" in html_of(page)
    house.client.search.submit_search_feedback(search_id=found.search_id, feedback="THUMBS_UP")
    page = draw(house)
    assert figures(page) == {"Searches": "2", "Without results": "1 (50%)", "Thumbs up": "1", "Thumbs down": "0"}
    searches, thumbs = (drawn(chart) for chart in page.get("vega_lite_chart"))
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    # Without a zone: a browser shows a time that has one as it is where the browser is, a day off in half the world.
    assert searches["From"].max().isoformat() == today.replace(tzinfo=None).isoformat()
    assert totals(searches) == {"With results": 1, "Without results": 1}
    assert totals(thumbs) == {"Thumbs up": 1, "Thumbs down": 0}
    assert "By meaning there is always something nearest, however far" in html_of(page)
    assert figures(draw(house, over="quarter")) == figures(page)


def drawn(chart: Any) -> Any:
    """What a chart draws, as a table."""
    return convert_arrow_bytes_to_pandas_df(chart.proto.datasets[0].data.data)


def totals(table: Any) -> dict[str, int]:
    """What a chart's bars of each colour come to."""
    _at, colour, count = table.columns
    return table.groupby(colour)[count].sum().to_dict()


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "–"), (0, 7, "0 (0%)"), (7, 7, "7 (100%)"), (3, 1000, "3 (under 1%)"), (2999, 3000, "2,999 (over 99%)")],  # noqa: RUF001
)
def test_a_share_is_never_rounded_to_none_or_all(part: int, whole: int, said: str) -> None:
    """A few of many are some, and stand there with their number."""
    assert share(part, whole) == said


def test_a_search_without_results_is_done_again_in_every_mode(house: House) -> None:
    """It is listed with who searched; its address names it, and what it finds now stands side by side."""
    words = f"gyrocopter {uuid4().hex[:6]}"
    house.client.search.search_document_catalog(words, mode="LEXICAL")
    page = draw(house, "without")
    row = page.dataframe[0].value.iloc[0]
    assert (row["Searched for"], row["By"], row["In"]) == (words, "Keywords", "The whole catalog")
    assert "Results" not in row
    page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    load(house.client, "Rotors", f"The {words} lands on the pier.")
    page.run()
    assert not page.exception
    assert words not in str(dict(page.query_params))
    for shown in (page, house.open("quality", search=str(address(page)["search"]))):
        assert html_of(shown).count(". Rotors</h3>") == 3
        assert f"{words}</h2>" in html_of(shown)
        assert "The whole catalog · by keywords · 0 results · admin" in html_of(shown)
        assert "Nobody has said anything about it." in html_of(shown)
    page = press(page, "All of these searches")
    assert "search" not in page.query_params


def test_looking_on_at_a_search_that_is_done_again_searches_no_more(house: House) -> None:
    """Each way once, as the page says: what is drawn again adds nothing to the figures that it is about."""
    found = house.client.search.search_document_catalog(f"once {uuid4().hex[:6]}", mode="LEXICAL")
    page = house.open("quality", search=str(found.search_id))
    assert "stand in the log as yours" in html_of(page)
    before = len(list(house.client.admin.search_log.query()))
    page.run()
    assert len(list(house.client.admin.search_log.query())) == before


def test_what_was_said_of_a_search_stands_beside_what_it_finds_now(house: House) -> None:
    """Thumbs down come with their comments, as text, whoever wrote them."""
    load(house.client, HOSTILE, "Cats stay ashore.")
    load(house.client, "Gone", "Dogs swim.")
    found = house.client.search.search_document_catalog(f"{HOSTILE} dogs")
    best, gone = (next(one for one in found.results if (one.document_name == "Gone") is it) for it in (False, True))
    house.client.search.submit_search_feedback(
        search_id=found.search_id, feedback="THUMBS_DOWN", comments=f"Not about dogs. {HOSTILE}"
    )
    for document in (best.document_id, gone.document_id):
        house.client.search.submit_search_feedback(
            search_id=found.search_id, feedback="THUMBS_DOWN", document_id=document
        )
    house.client.catalog.delete_document(gone.document_id)
    page = draw(house, "down")
    assert page.dataframe[0].value["Searched for"].tolist() == [f"{HOSTILE} dogs"]
    page = house.open("quality", search=str(found.search_id))
    assert html.escape(f"Not about dogs. {HOSTILE}") in html_of(page)
    assert f"<td>Thumbs down</td><td>All of it</td><td>Not about dogs. {html.escape(HOSTILE)}</td>" in html_of(page)
    assert f"<td>{html.escape(best.document_name)}</td><td>No text.</td>" in html_of(page)
    assert "<td>A document that is gone</td><td>No text.</td>" in html_of(page)
    assert "<img" not in html_of(page)
    assert "evil" not in markdown_of(page)


def test_what_a_key_passed_on_stands_under_the_name_of_whoever_said_it(house: House) -> None:
    """A user whom the key named is the author; somebody outside stands in what was said."""
    house.client.admin.users.upsert([{"email": "oona@example.test", "name": "Oona"}])
    search_id = house.client.search.search_document_catalog("passed on", mode="LEXICAL").search_id
    for email in ("oona@example.test", "visitor@elsewhere.test"):
        house.client.search.submit_search_feedback(
            search_id=search_id, feedback="THUMBS_UP", comments="Good.", user_email=email
        )
    page = html_of(house.open("quality", search=str(search_id)))
    assert "<td>Oona</td><td>Thumbs up</td><td>All of it</td><td>Good.</td>" in page
    assert page.count("<td>Oona</td>") == 1
    assert "End user: visitor@elsewhere.test" in page


def test_a_search_whose_words_were_erased_is_not_done_again(house: House) -> None:
    """It stays in the list without its words, and choosing it searches for nothing."""
    house.client.search.search_document_catalog("erase me", mode="LEXICAL")
    with house.service.owner_connection() as connection:
        connection.execute("DELETE FROM free_texts WHERE text = 'erase me'")
    page = draw(house, "without")
    assert page.dataframe[0].value["Searched for"].tolist()[0] == "(erased)"
    page.session_state[page.dataframe[0].key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    page.run()
    assert "has been erased" in html_of(page)
    assert "carrel-result" not in html_of(page)


def test_a_search_of_a_collection_that_is_gone_is_not_widened(house: House) -> None:
    """What was searched for in a collection is never searched for in the catalog instead."""
    collection = house.client.document_collections.create_document_collection(f"Gone {uuid4()}")
    where = collection.document_collection_id
    found = house.client.search.search_document_collection("sheep", document_collection_id=where)
    house.client.document_collections.delete_document_collection(where)
    page = house.open("quality", search=str(found.search_id))
    assert "This collection isn&#x27;t here." in html_of(page)
    assert "carrel-result" not in html_of(page)


@pytest.mark.parametrize("search", ["nothing", "0198c5b0-0000-7000-8000-000000000000", "a\0b"])
def test_an_address_of_no_search_is_said_calmly(house: House, search: str) -> None:
    """Nothing is searched for then, whatever else an address says."""
    page = house.open("quality", search=search, q="sheep")
    assert not page.exception
    assert "This search isn&#x27;t in the log." in html_of(page)
    assert "sheep" not in html_of(page)


def compare(house: House, text: str, *, where: str = CATALOG, modes: Any = None) -> AppTest:
    """Paste judgements and compare."""
    page = draw(house, "compare")
    page.text_area(key="compare.text").set_value(text)
    page.selectbox(key="compare.where").set_value(where)
    if modes is not None:
        page.multiselect(key="compare.modes").set_value(modes)
    return press(page, "Compare")


def test_modes_are_compared_on_judged_queries(house: House) -> None:
    """The means are those of the rankings: what is found first gives 1, what isn't found gives 0."""
    load(house.client, "ferry-times", "The boat to Northlight departs at nine in the morning.")
    load(house.client, "menu", "Soup and bread in the canteen.")
    page = compare(
        house, "query,external id,grade\nNorthlight boat,ferry-times,1\nNorthlight boat again,no such id,1\n"
    )
    shown = html_of(page)
    assert "<td>Keywords</td><td>0.500</td><td>0.500</td><td>0.500</td>" in shown
    differences = page.dataframe[0].value
    assert sorted(differences["Query"]) == ["Northlight boat", "Northlight boat again"]
    assert page.download_button[0].label == "Download as CSV"


def test_a_collection_is_compared_by_its_documents(house: House) -> None:
    """In a collection documents rank by their best chunk; what is left out of judgements is said."""
    collection = house.client.document_collections.create_document_collection(f"Pier {uuid4()}")
    house.client.catalog.upload_file(
        b"The crane lifts crates.",
        file_name="crane.txt",
        document_external_id="crane",
        collection_id=collection.document_collection_id,
        await_vector_store_sync=True,
    )
    text = "query;external id;grade\ncrane;crane;2\nnothing answers;crane;0\n"
    page = compare(house, text, where=str(collection.document_collection_id), modes=[SearchMode.LEXICAL])
    assert "<td>Keywords</td><td>1.000</td><td>1.000</td><td>1.000</td>" in html_of(page)
    assert "1 query is left out" in html_of(page)
    assert list(page.dataframe[0].value.columns) == ["Query", "Keywords"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There is nothing in it."),
        ("a,b\n1,2\n", "The first line must name the columns"),
        ("query,external id,grade\nx,y,high\n", "the grade must be a whole number"),
        (f"query,external id,grade\nx,y,{'9' * 400}\n", "the grade must be a whole number, at most 1000"),
        ("query,external id,grade\nx,y,1\nx,y,2\n", "Line 3: this document has another grade for the same query"),
        ("query,external id,grade\nx,y,0\n", "No query has a document that answers it"),
        (f"query,external id\nx,{HOSTILE}\n,y\n", "it needs a query and an external id"),
    ],
)
def test_judgements_that_are_none_are_said(house: House, text: str, said: str) -> None:
    """What is wrong stands on the page, and nothing is searched for."""
    page = compare(house, text)
    assert said in html_of(page)
    assert not page.dataframe


def test_a_file_and_pasted_text_are_not_guessed_between(house: House) -> None:
    """Which of them is meant is for the person to say."""
    page = draw(house, "compare")
    page.file_uploader(key="compare.file").set_value(("judged.csv", b"query,id\nx,y\n", "text/csv"))
    page.text_area(key="compare.text").set_value("query,id\na,b\n")
    page = press(page, "Compare")
    assert "There is a file, and pasted text too." in html_of(page)
    assert not page.dataframe


def test_nothing_to_compare_is_said(house: House) -> None:
    """Without a mode there is nothing to search by."""
    assert "There is nothing to compare." in html_of(compare(house, "query,id\nx,y\n", modes=[]))


def test_a_stopped_comparison_keeps_what_it_has_and_goes_on(house: House) -> None:
    """Means are of the queries so far; going on measures the rest."""
    load(house.client, "buoy", "The buoy blinks green.")
    queries = "".join(f"buoy {number},buoy\n" for number in range(3))
    page = compare(house, f"query,external id\n{queries}", modes=[SearchMode.LEXICAL])
    run: Comparison = page.session_state["compare.run"]
    run.scores.pop("buoy 2")
    run.stopped = True
    page.run()
    assert "Stopped: 1 of 3 queries are not measured." in html_of(page)
    assert "Means of 2 queries" in page.subheader[0].value
    page = press(page, "Continue")
    assert "Means of 3 queries" in page.subheader[0].value


def test_a_member_is_refused(house: House) -> None:
    """Also at the address of a search."""
    a_person(house.service, "jonas@example.test")
    page = house.open("quality", signed_in_as="jonas@example.test", search=str(uuid4()))
    assert "This page is for admins." in html_of(page)
    assert "carrel-name" not in html_of(page)
    assert not page.button


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_judgements_are_read_as_spreadsheets_write_them(delimiter: str) -> None:
    """A byte order mark, other delimiters, quotes and lines without a grade are fine; grades add up by query."""
    lines = [["Query", "External ID", "Grade"], ["dogs", "fares", "2"], ["dogs", "rules", ""], ['"a; b,\tc"', "x", "1"]]
    text = "\ufeff" + "\r\n".join(delimiter.join(line) for line in lines)
    assert read(text.encode()).queries == {"dogs": {"fares": 2, "rules": 1}, "a; b,\tc": {"x": 1}}


@pytest.mark.parametrize(
    "data",
    [
        b"query,id\n\xff\xfe,x\n",
        b"query,id\n" + b"".join(b"q%d,x\n" % number for number in range(MOST_QUERIES + 1)),
        b"query,id\na\0b,x\n",
        b"query,id\n" + b"q" * 9000 + b",x\n",
        b"query,id\nq," + b"x" * 2000 + b"\n",
        b"query,id\nq," + b"x" * 200_000 + b"\n",
        b"x" * 5_000_001,
    ],
)
def test_judgements_that_are_hostile_or_too_many_are_refused(data: bytes) -> None:
    """Other encodings, more queries than are measured, and what can't be searched for end in one kind of error."""
    with pytest.raises(JudgementsError) as refused:
        read(data)
    assert len(str(refused.value)) < 300


def test_only_the_first_problems_are_listed() -> None:
    """A file of nothing but mistakes is answered in a few lines."""
    with pytest.raises(JudgementsError) as refused:
        read("query,id,grade\n" + "x,y,z\n" * 50)
    assert len(refused.value.problems) == 11
    assert refused.value.problems[-1] == "… and 40 more"


def test_queries_that_modes_differ_most_on_come_first() -> None:
    """Ties are in the order of the words, and means are of what is measured."""
    run = Comparison(read("query,id\na,x\nb,x\nc,x\n"), Setting(CATALOG, (SearchMode.LEXICAL, SearchMode.SEMANTIC)))
    assert run.means(SearchMode.LEXICAL) == Scores(0.0, 0.0, 0.0)
    good, bad = Scores(1.0, 1.0, 1.0), Scores(0.25, 0.5, 0.2)
    run.scores["a"] = {SearchMode.LEXICAL: good, SearchMode.SEMANTIC: good}
    run.scores["b"] = {SearchMode.LEXICAL: bad, SearchMode.SEMANTIC: good}
    assert run.by_difference() == [("b", 0.75), ("a", 0.0)]
    assert run.means(SearchMode.LEXICAL).ndcg == 0.625
    assert run.left == ["c"]
