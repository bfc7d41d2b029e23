"""The page of quality in its states, and reading judgements."""

import html
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from app.quality.log import share
from app.quality.runs import Running
from app.quality.worst import worst_first
from app.spreadsheets import in_batches
from carrel import Carrel, evaluation
from carrel.evaluation import Measurer, RunKeeper
from carrel.judgements import HEADS, JudgementsError, read, read_cases, rows_of, write, write_cases
from carrel.wire.common import UserPrincipal
from carrel.wire.evaluation import EvaluationCase, EvaluationSet
from carrel.wire.oversight import LoggedSearch
from carrel.wire.search import SearchFeedback, SearchMode
from tests.app.conftest import House, Open, html_of, markdown_of
from tests.app.pressing import answer, press
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
    assert (row["Searched for"], row["Match by"], row["Search in"]) == (words, "Keywords", "The whole catalog")
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


def test_a_member_is_refused(house: House) -> None:
    """Also at the address of a search."""
    a_person(house.service, "jonas@example.test")
    page = house.open("quality", signed_in_as="jonas@example.test", search=str(uuid4()))
    assert "This page is for admins." in html_of(page)
    assert "carrel-name" not in html_of(page)
    assert not page.button


def a_set(house: House, judgements: Mapping[str, Mapping[str, int]] | None = None, **target: Any) -> EvaluationSet:
    """A new evaluation set of a name like no other."""
    one = house.client.admin.evaluation_sets.create(f"Set {uuid4().hex[:8]}", **target)
    evaluation.add_judgements(house.client, one.evaluation_set_id, judgements or {})
    return one


def cases_of(house: House, one: EvaluationSet) -> dict[str, dict[str, int]]:
    """What is kept in a set: the grades by question."""
    listed = house.client.admin.evaluation_sets.list_cases(one.evaluation_set_id)
    return {case.question: case.grades for case in listed}


def open_set(house: House, one: EvaluationSet) -> AppTest:
    """Open a set's page."""
    return draw(house, "sets", set=str(one.evaluation_set_id))


def choose(page: AppTest, table: int, row: int = 0) -> AppTest:
    """Choose a row of one of the page's lists."""
    page.session_state[page.dataframe[table].key] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    page.run()
    assert not page.exception
    return page


def test_the_worst_queries_come_first_whoever_asked(house: House) -> None:
    """Thumbs down weigh more than no results, or words that nothing has; equal words count together.

    A row leads to what can be done.
    """
    mark = uuid4().hex[:6]
    load(house.client, f"Bad {mark}", "The barge carries coal.")
    for words in (f"Zeppelin  {mark}x", f"zeppelin {mark}x"):
        house.client.search.search_document_catalog(words, mode="LEXICAL")
    house.client.search.search_document_catalog(f"quixotic{mark} windmills{mark}")
    down = house.client.search.search_document_catalog(f"{mark} barge with coal {HOSTILE}")
    house.client.search.submit_search_feedback(search_id=down.search_id, feedback="THUMBS_DOWN")
    page = house.open("quality")
    assert not page.exception
    table = page.dataframe[0].value
    mine = table[table["Query"].str.contains(mark)]
    assert mine["Thumbs down"].tolist() == [1, 0, 0]
    assert mine["Without results"].tolist() == [0, 2, 0]
    assert mine["Words not found"].tolist() == [0, 0, 1]
    assert mine["People"].tolist() == [1, 1, 1]
    assert "evil" not in markdown_of(page)
    page = choose(page, 0, int(mine.index[0]))
    shown = html_of(page)
    assert f"part=judge&amp;q={mark}+barge+with" in shown
    assert 'href="documents"' in shown
    assert "who_can_read?resource=UPLOADED_DOCUMENT" in shown
    assert "<img" not in shown


def test_bad_queries_are_weighed() -> None:
    """Each person who was failed counts; of equals the newest comes first, and erased words are left out."""

    def search(
        query: str | None,
        person: str,
        *,
        minute: int,
        down: bool = False,
        found: int = 0,
        has_words: bool | None = None,
    ) -> LoggedSearch:
        return LoggedSearch(
            search_id=uuid4(),
            at=datetime(2026, 1, 1, 9, minute, tzinfo=UTC),
            actor=UserPrincipal(id=person, email=f"{person}@example.test", name=person),
            query=query,
            mode=SearchMode.HYBRID,
            result_count=5 if down else found,
            has_words=has_words,
            feedback=SearchFeedback.THUMBS_DOWN if down else None,
        )

    found = worst_first(
        [
            search("once", "ada", minute=1),
            search("twice", "ada", minute=2),
            search(" Twice", "ben", minute=3),
            search("down", "ada", minute=4, down=True),
            search("later", "ada", minute=5),
            search(None, "ada", minute=6),
            search("near in meaning alone", "ada", minute=0, found=5, has_words=False),
            search("near in meaning alone", "ben", minute=0, found=5, has_words=False),
            search("of no word at all", "ada", minute=0, has_words=False),
        ]
    )
    assert [(one.query, one.badness) for one in found] == [
        ("down", 4),
        (" Twice", 4),
        ("near in meaning alone", 4),
        ("later", 2),
        ("once", 2),
        ("of no word at all", 2),
    ]


def test_results_are_judged_with_one_click_and_taken_back_with_another(house: House) -> None:
    """Each click is kept at once; the grade that is kept is marked, and stays over a reload."""
    mark = uuid4().hex[:6]
    load(house.client, f"Pier {mark}", f"The pier {mark} opens at six.")
    one = a_set(house)
    question = f"when does pier {mark} open?"
    page = draw(house, "judge", q=question, set=str(one.evaluation_set_id))
    page = grade(page, "Relevant", question, f"Pier {mark}")
    assert cases_of(house, one) == {question: {f"Pier {mark}": 2}}
    page = draw(house, "judge", q=question, set=str(one.evaluation_set_id))
    page = grade(page, "Partly", question, f"Pier {mark}")
    assert cases_of(house, one) == {question: {f"Pier {mark}": 1}}
    grade(page, "Partly", question, f"Pier {mark}")
    assert cases_of(house, one) == {question: {}}


def grade(page: AppTest, label: str, question: str, external_id: str) -> AppTest:
    """Click on a grade of a document."""
    [button] = [one for one in page.button if one.label == label and f".{question}.{external_id}." in str(one.key)]
    page = button.click().run()
    assert not page.exception
    return page


def test_a_document_that_is_not_found_can_be_judged(house: House) -> None:
    """By its external id; it stands under the results with its grade, as text."""
    one = a_set(house)
    page = draw(house, "judge", q="zyx nothing", set=str(one.evaluation_set_id))
    page.text_input(key="judge.name").set_value(HOSTILE)
    page = next(each for each in page.button if each.label == "Relevant" and each.form_id).click().run()
    assert cases_of(house, one) == {"zyx nothing": {HOSTILE: 2}}
    assert html.escape(HOSTILE) in html_of(page)
    assert "<img" not in html_of(page)


def test_judging_without_a_set_offers_to_make_one(open_page: Open) -> None:
    """The first set is made where the address says, and judging goes on with the question."""
    page = open_page("quality", part="judge", q="how high are the waves?")
    assert "There is no evaluation set of searches yet." in html_of(page)
    page = press(page, "New set")
    page.text_input(key="sets.name").set_value("Waves")
    page = answer(page, "New set", "Create")
    assert address(page)["q"] == "how high are the waves?"
    assert "set" in page.query_params
    assert "Results of all three ways" in html_of(page)


def test_judging_offers_no_agents_set_unless_the_address_names_it(house: House) -> None:
    """Its judgements say what a reply should cite, not what a search should find."""
    agent = house.client.admin.agents.create(f"Purser {uuid4().hex[:6]}")
    searches, answers = a_set(house), a_set(house, agent_id=agent.agent_id)
    page = draw(house, "judge")
    [chosen] = [each for each in page.selectbox if each.label == "Evaluation set"]
    assert chosen.value == str(searches.evaluation_set_id)
    assert not any(answers.name in option for option in chosen.options)
    page = draw(house, "judge", set=str(answers.evaluation_set_id))
    [chosen] = [each for each in page.selectbox if each.label == "Evaluation set"]
    assert chosen.value == str(answers.evaluation_set_id)


def test_a_question_is_added_on_the_page_of_its_set(house: House) -> None:
    """It is opened to judge its results, or of an agent its replies; what is judged already stays; none is refused."""
    one = a_set(house, {"dogs": {"fares": 2}})
    page = press(open_set(house, one), "Add a question")
    page = answer(page, "Add a question", "Add")
    assert "Write the question first." in html_of(page)
    page.text_area(key="sets.question").set_value(" cats ")
    next(each for each in page.button if each.key == "sets.add.submit").click().run()
    assert cases_of(house, one) == {"dogs": {"fares": 2}, "cats": {}}
    assert (address(page)["part"], address(page)["q"]) == ("judge", "cats")
    page = press(open_set(house, one), "Add a question")
    page.text_area(key="sets.question").set_value("dogs")
    next(each for each in page.button if each.key == "sets.add.submit").click().run()
    assert cases_of(house, one) == {"dogs": {"fares": 2}, "cats": {}}
    agent = house.client.admin.agents.create(f"Steward {uuid4().hex[:6]}")
    answers = a_set(house, agent_id=agent.agent_id)
    page = house.open("agents", agent=str(agent.agent_id), part="answers", set=str(answers.evaluation_set_id))
    page = press(page, "Add a question")
    page.text_area(key="sets.question").set_value("When is lunch?")
    page.text_area(key="sets.note_of_question").set_value("At noon")
    assert "Next, say which documents" in html_of(page)
    page = page.checkbox(key="sets.nothing").check().run()
    assert "Next, say which documents" not in html_of(page)
    next(each for each in page.button if each.key == "sets.add.submit").click().run()
    assert "Documents that the reply should cite" in [each.value for each in page.subheader]
    assert "Nothing should answer this” is chosen above" in html_of(page)
    assert not [each.label for each in page.button if each.label == "Relevant"]
    [case] = house.client.admin.evaluation_sets.list_cases(answers.evaluation_set_id)
    assert (case.question, case.note, case.nothing_answers) == ("When is lunch?", "At noon", True)
    judgements = [{"document_external_id": name, "grade": grade} for name, grade in (("a", 2), ("b", 1), ("c", 0))]
    cases = [
        {"question": "dogs", "judgements": judgements, "statements": ["free"]},
        {"question": "eels", "judgements": judgements[2:]},
    ]
    house.client.admin.evaluation_sets.put_judgements(answers.evaluation_set_id, cases)
    page = house.open("agents", agent=str(agent.agent_id), part="answers", set=str(answers.evaluation_set_id))
    assert page.dataframe[0].value.set_index("Question")["Expected of the reply"].to_dict() == {
        "dogs": "2 documents, 1 statement",
        "eels": "Any answer",
        "When is lunch?": "Nothing answers",
    }


def test_sets_are_listed_renamed_and_deleted(house: House) -> None:
    """A row leads to the set; a name without letters is refused, and what is deleted is gone."""
    one = a_set(house, {"dogs": {"fares": 2, "rules": 0}})
    page = draw(house, "sets")
    table = page.dataframe[0].value
    row = table[table["Name"] == one.name]
    assert (row["Questions"].item(), row["Searches or asks"].item()) == (1, "the whole catalog")
    page = open_set(house, one)
    assert f"{one.name}</h2>" in html_of(page)
    page = press(page, "Rename")
    page.text_input(key="sets.new_name").set_value(f"{one.name} {HOSTILE}")
    page = (
        next(each for each in page.button if each.label == "Rename" and each.key == "sets.rename.submit").click().run()
    )
    assert html.escape(HOSTILE) in html_of(page)
    [kept] = house.client.admin.evaluation_sets.list(ids=[one.evaluation_set_id])
    assert kept.name == f"{one.name} {HOSTILE}"
    press(press(page, "Delete"), "Delete it")
    assert not list(house.client.admin.evaluation_sets.list(ids=[one.evaluation_set_id]))


@pytest.mark.parametrize("address", ["nothing", "0198c5b0-0000-7000-8000-000000000000", "a\0b"])
def test_an_address_of_no_set_is_said_calmly(house: House, address: str) -> None:
    """A deleted set, or no id at all."""
    page = draw(house, "sets", set=address)
    assert "This set isn&#x27;t here." in html_of(page)


def test_a_file_is_imported_and_exported_as_it_was(house: House) -> None:
    """Importing adds to what is there; a formula is text in the export, and is what it was when imported again."""
    one = a_set(house, {"dogs": {"fares": 1}})
    page = open_set(house, one)
    data = b'query,external id,grade\ndogs,rules,2\n"=1+1",@sum,-1\nopen question,,\n'
    page.file_uploader(key="sets.file").set_value(("judged.csv", data, "text/csv"))
    page = press(page, "Add to the set")
    expected = {"dogs": {"fares": 1, "rules": 2}, "=1+1": {"@sum": 0}, "open question": {}}
    assert cases_of(house, one) == expected
    listed = house.client.admin.evaluation_sets.list_cases(one.evaluation_set_id)
    judged = {case.question: case.grades for case in listed}
    exported = in_batches(HEADS, [rows_of(judged)], count=lambda _: None, most=100)
    assert b"'=1+1,'@sum,0" in exported
    assert read(exported) == expected
    assert write(judged) == exported


def test_a_file_that_is_none_is_refused_as_a_whole(house: House) -> None:
    """What is wrong stands on the page, and nothing of the file is kept."""
    one = a_set(house)
    page = open_set(house, one)
    data = b"query,external id,grade\ndogs,rules,2\ncats,x,high\n"
    page.file_uploader(key="sets.file").set_value(("judged.csv", data, "text/csv"))
    page = press(page, "Add to the set")
    assert "the grade must be a whole number" in html_of(page)
    assert cases_of(house, one) == {}


def test_a_set_is_measured_in_modes_and_the_runs_are_compared(house: House) -> None:
    """Each mode is kept as a run; after a change what became worse comes first, and a chart shows the dates."""
    mark = uuid4().hex[:6]
    load(house.client, f"one-{mark}", f"The {mark} ferry leaves at nine.")
    load(house.client, f"two-{mark}", f"The {mark} canteen has soup.")
    one = a_set(
        house,
        {
            f"{mark} ferry": {f"one-{mark}": 2},
            f"{mark} canteen": {f"two-{mark}": 2},
            "open question": {"x": 0},
        },
    )
    page = open_set(house, one)
    page.multiselect(key="sets.modes").set_value([SearchMode.LEXICAL, SearchMode.SEMANTIC])
    page.text_input(key="sets.note").set_value("Before")
    page = press(page, "Measure now")
    sets = house.client.admin.evaluation_sets
    runs = list(sets.list_runs(one.evaluation_set_id))
    assert sorted(str(run.mode) for run in runs) == ["LEXICAL", "SEMANTIC"]
    assert {(run.note, run.case_count) for run in runs} == {("Before", 2)}
    assert next(run for run in runs if run.mode is SearchMode.LEXICAL).ndcg == 1
    house.client.catalog.delete_document(
        next(iter(house.client.catalog.list_documents(document_name=f"one-{mark}"))).document_id
    )
    page = open_set(house, one)
    page.multiselect(key="sets.modes").set_value([SearchMode.LEXICAL])
    page = press(page, "Measure now")
    assert len(list(sets.list_runs(one.evaluation_set_id))) == 3
    assert "nDCG over time" in [each.value for each in page.subheader]
    [chart] = page.get("vega_lite_chart")
    assert len(set(drawn(chart)["At"])) == 2  # runs of one minute, too
    table = next(each.value for each in page.dataframe if "Change" in each.value)
    assert table["Question"].tolist() == [f"{mark} ferry", f"{mark} canteen"]
    assert table["Change"].tolist() == ["-1.000", "0"]
    assert "1 worse, 0 better, 1 as before." in html_of(page)


def test_a_stopped_run_is_kept_as_far_as_it_came_and_goes_on(house: House) -> None:
    """Continuing measures what is left, each case once, into the same run."""
    load(house.client, "buoy", "The buoy blinks green.")
    one = a_set(house, {f"buoy {number}": {"buoy": 1} for number in range(3)})
    sets = house.client.admin.evaluation_sets
    cases = list(sets.list_cases(one.evaluation_set_id))
    page = open_set(house, one)
    keepers = [
        RunKeeper(
            house.client, one.evaluation_set_id, Measurer(house.client, one, mode=mode), planned_count=3, note=None
        )
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC)
    ]
    running = Running(one.evaluation_set_id, keepers, cases)
    running.measure_next()
    keepers[0].keep()  # and then the service was gone, in the middle of the next question
    keepers[0].measure(cases[1])
    running.stopped = True
    page.session_state["sets.run"] = running
    page.run()
    assert "Stopped: 1 of 3 questions." in html_of(page)
    half = {run.mode: run for run in sets.list_runs(one.evaluation_set_id)}
    assert {run.planned_count for run in half.values()} == {3}
    assert page.dataframe[0].value["Questions"].tolist() == ["1 of 3", "2 of 3"]
    press(page, "Continue")
    runs = list(sets.list_runs(one.evaluation_set_id))
    assert {run.mode: run.evaluation_run_id for run in runs} == {
        mode: run.evaluation_run_id for mode, run in half.items()
    }
    assert [run.case_count for run in runs] == [3, 3]
    keepers[0].measure(cases[0])
    for run in runs:
        sets.delete_run(one.evaluation_set_id, run.evaluation_run_id)
    running.stopped = True
    page.session_state["sets.run"] = running
    page.run()
    assert "The last questions are not kept." in html_of(page)
    assert "Stopped" not in html_of(press(page, "End it here"))


def test_nothing_to_measure_is_said(house: House) -> None:
    """A set of questions that nothing answers keeps no run."""
    one = a_set(house, {"dogs": {"fares": 0}})
    page = press(open_set(house, one), "Measure now")
    assert "No question of this set has a relevant document." in html_of(page)
    page.multiselect(key="sets.modes").set_value([])
    assert "Choose at least one way to search." in html_of(press(page, "Measure now"))


def test_a_set_of_a_collection_that_is_gone_says_so(house: House) -> None:
    """Its judgements are still there; measuring says why it can't, and keeps nothing."""
    collection = house.client.document_collections.create_document_collection(f"Gone {uuid4()}")
    one = a_set(house, {"dogs": {"fares": 1}}, document_collection_id=collection.document_collection_id)
    house.client.document_collections.delete_document_collection(collection.document_collection_id)
    page = open_set(house, one)
    assert "a collection that is gone" in html_of(page)
    page = press(page, "Measure now")
    assert "There is no such collection." in html_of(page)
    assert not list(house.client.admin.evaluation_sets.list_runs(one.evaluation_set_id))
    press(page, "End it here")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_judgements_are_read_as_spreadsheets_write_them(delimiter: str) -> None:
    """A byte order mark, other delimiters, quotes and lines without a grade are fine; grades add up by query."""
    lines = [["Query", "External ID", "Grade"], ["dogs", "fares", "2"], ["dogs", "rules", ""], ['"a; b,\tc"', "x", "1"]]
    text = "\ufeff" + "\r\n".join(delimiter.join(line) for line in lines)
    assert read(text.encode()) == {"dogs": {"fares": 2, "rules": 1}, "a; b,\tc": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There is nothing in it."),
        ("a,b\n1,2\n", "The first line must name the columns"),
        ("query,external id,grade\nx,y,high\n", "the grade must be a whole number"),
        (f"query,external id,grade\nx,y,{'9' * 400}\n", "the grade must be a whole number, at most 10"),
        ("query,external id,grade\nx,y,11\n", "the grade must be a whole number, at most 10"),
        ("query,external id,grade\nx,y,1\nx,y,2\n", "Line 3: this document has another grade for the same query"),
        (f"query,external id\nx,{HOSTILE}\n,y\n", "it needs a query and an external id"),
        ("query,id\n" + "".join(f"q{number},x\n" for number in range(2001)), "a set has at most 2,000"),
        ("query,id\n" + "".join(f"q,x{number}\n" for number in range(201)), "A query has at most 200 documents"),
    ],
)
def test_judgements_that_are_none_are_said(text: str, said: str) -> None:
    """What is wrong, and in which line."""
    with pytest.raises(JudgementsError) as refused:
        read(text)
    assert said in " ".join((str(refused.value), *refused.value.problems))


def test_cases_of_an_agent_are_written_and_read_as_they_were() -> None:
    """Documents, statements, and that nothing answers; what a file doesn't say of a question isn't changed by it."""
    dogs = {"judgements": [{"documentExternalId": "a", "grade": 2}], "statements": ["=1", "on, it"]}
    members = {"dogs": dogs, "cats": {"nothingAnswers": True}, "open": {}}
    cases = [
        EvaluationCase.model_validate({"caseId": UUID(int=1), "question": question, "judgements": [], **more})
        for question, more in members.items()
    ]
    text = write_cases(cases)
    found = read_cases(text)
    assert [(one.question, one.statements, one.nothing_answers) for one in found] == [
        ("dogs", ["=1", "on, it"], None),
        ("cats", None, True),
        ("open", None, None),
    ]
    assert read(text) == {"dogs": {"a": 2}, "cats": {}, "open": {}}
    for line, said in {
        "q,,,,maybe": "yes or no",
        "q,,," + "x" * 1001: "at most 1,000 characters",
        "\n".join(f"q,,,s{number}" for number in range(21)): "at most 20 statements",
    }.items():
        with pytest.raises(JudgementsError) as refused:
            read_cases(f"query,external id,grade,statement,nothing answers\n{line}\n")
        assert said in " ".join((str(refused.value), *refused.value.problems))


@pytest.mark.parametrize(
    "data",
    [
        b"query,id\n\xff\xfe,x\n",
        b"query,id\na\0b,x\n",
        b"query,id\n" + b"q" * 9000 + b",x\n",
        b"query,id\nq," + b"x" * 2000 + b"\n",
        b"query,id\nq," + b"x" * 200_000 + b"\n",
        b"x" * 5_000_001,
    ],
)
def test_judgements_that_are_hostile_or_too_large_are_refused(data: bytes) -> None:
    """Other encodings, endless cells, and what can't be searched for end in one kind of error."""
    with pytest.raises(JudgementsError) as refused:
        read(data)
    assert len(str(refused.value)) < 300


def test_only_the_first_problems_are_listed() -> None:
    """A file of nothing but mistakes is answered in a few lines."""
    with pytest.raises(JudgementsError) as refused:
        read("query,external id,grade\n" + "x,y,z\n" * 50)
    assert len(refused.value.problems) == 11
    assert refused.value.problems[-1] == "… and 40 more"
