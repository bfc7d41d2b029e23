"""The page of quality, and reading judgements."""

import html
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from app.quality.runs import Running
from app.quality.searches import share, worst_first
from carrel import evaluation
from carrel.evaluation import Measurer, RunKeeper
from carrel.judgements import JudgementsError, read, read_cases, write
from carrel.wire.common import UserPrincipal
from carrel.wire.evaluation import EvaluationSet
from carrel.wire.oversight import LoggedSearch
from carrel.wire.search import SearchFeedback, SearchMode
from tests.app.conftest import House
from tests.app.pages import MARKUP, Page, drawn, new_word
from tests.harness.cases import cases


def load(house: House, name: str, text: str) -> str:
    return house.load(name, text, document_external_id=name)


def search(house: House, words: str, **options):
    """Search the catalog, by keywords unless the options say otherwise."""
    return house.client.search.search_document_catalog(words, **({"mode": "LEXICAL"} | options))


def judge(house: House, found, feedback: str = "THUMBS_DOWN", **options) -> None:
    house.client.search.submit_search_feedback(search_id=found.search_id, feedback=feedback, **options)


def draw(house: House, part: str = "overview", **address: str) -> Page:
    return house.open("quality", part=part, **address)


def test_searches_are_counted_and_drawn(new_house: House) -> None:
    page = draw(new_house)
    assert "No searches in this period." in page.shown
    assert page.metrics["Searches"] == "0"
    assert "%" not in page.metrics["Without results"]
    assert "Every search found results." in draw(new_house, "without").shown
    for part in ("overview", "without", "down"):
        page = draw(new_house, part)
        assert not page.caption, part
        assert ("audit_log?action=agent.feedback" in page.shown) is (part != "without")
    assert "No searches have thumbs down." in page.shown
    new_house.load("Livestock", "Sheep travel on deck.")
    found = search(new_house, "sheep")
    search(new_house, "zeppelin")
    page = draw(new_house)
    assert len(page.get("vega_lite_chart")) == 1
    assert "No feedback on searches in this period" in page.shown
    judge(new_house, found, "THUMBS_UP")
    page = draw(new_house)
    assert page.metrics == {"Searches": "2", "Without results": "1 (50%)", "Thumbs up": "1", "Thumbs down": "0"}
    searches, thumbs = (drawn(chart) for chart in page.get("vega_lite_chart"))
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    # Without a zone: a browser shows a time that has one as it is where the browser is, a day off in half the world.
    assert searches["From"].max().isoformat() == today.replace(tzinfo=None).isoformat()
    assert totals(searches) == {"With results": 1, "Without results": 1}
    assert totals(thumbs) == {"Thumbs up": 1, "Thumbs down": 0}
    assert "A search by meaning always finds something" in page.shown
    assert draw(new_house, over="quarter").metrics == page.metrics


def totals(table) -> dict[str, int]:
    _at, colour, count = table.columns
    return table.groupby(colour)[count].sum().to_dict()


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 0, "–"), (0, 7, "0 (0%)"), (7, 7, "7 (100%)"), (3, 1000, "3 (under 1%)"), (2999, 3000, "2,999 (over 99%)")],  # noqa: RUF001
)
def test_a_share_is_never_rounded_to_none_or_all(part: int, whole: int, said: str) -> None:
    assert share(part, whole) == said


def test_a_search_without_results_is_done_again_in_every_mode(house: House) -> None:
    words = f"gyrocopter {uuid4().hex[:6]}"
    search(house, words)
    page = draw(house, "without")
    row = page.dataframe[0].value.iloc[0]
    assert (row["Searched for"], row["Match by"], row["Search in"]) == (words, "Keywords", "The whole catalog")
    assert "Results" not in row
    load(house, "Rotors", f"The {words} lands on the pier.")
    page.choose()
    assert words not in str(dict(page.query_params))
    for shown in (page, house.open("quality", search=page.address["search"])):
        assert shown.shown.count(". Rotors</h3>") == 3
        assert f"{words}</h2>" in shown.shown
        assert "The whole catalog · by keywords · 0 results · admin" in shown.shown
        assert "No comments." in shown.shown
        assert "The log lists these searches as yours" in shown.shown
    # What is drawn again adds nothing to the figures that it is about.
    before = len(list(house.client.admin.search_log.query()))
    page.run()
    assert len(list(house.client.admin.search_log.query())) == before
    assert "search" not in page.press("All searches").query_params


def test_what_was_said_of_a_search_stands_beside_what_it_finds_now(house: House) -> None:
    load(house, MARKUP, "Cats stay ashore.")
    load(house, "Gone", "Dogs swim.")
    found = search(house, f"{MARKUP} dogs", mode="HYBRID")
    best, gone = (next(one for one in found.results if (one.document_name == "Gone") is it) for it in (False, True))
    judge(house, found, comments=f"Not about dogs. {MARKUP}")
    judge(house, found, document_id=best.document_id)
    judge(house, found, document_id=gone.document_id)
    house.client.catalog.delete_document(gone.document_id)
    assert f"{MARKUP} dogs" in draw(house, "down").column("Searched for")
    page = house.open("quality", search=str(found.search_id))
    page.assert_shown_as_text(f"Not about dogs. {MARKUP}")
    assert f"<td>Thumbs down</td><td>Whole search</td><td>Not about dogs. {html.escape(MARKUP)}</td>" in page.shown
    assert f"<td>{html.escape(best.document_name)}</td><td>No text.</td>" in page.shown
    assert "<td>A deleted document</td><td>No text.</td>" in page.shown


def test_what_a_key_passed_on_stands_under_the_name_of_whoever_said_it(house: House) -> None:
    house.add_people("oona@example.test")
    found = search(house, "passed on")
    for email in ("oona@example.test", "visitor@elsewhere.test"):
        judge(house, found, "THUMBS_UP", comments="Good.", user_email=email)
    page = house.open("quality", search=str(found.search_id)).shown
    assert "<td>Oona</td><td>Thumbs up</td><td>Whole search</td><td>Good.</td>" in page
    assert page.count("<td>Oona</td>") == 1
    assert "End user: visitor@elsewhere.test" in page


def test_a_search_whose_words_were_erased_is_not_done_again(house: House) -> None:
    search(house, "erase me")
    with house.service.owner_connection() as connection:
        connection.execute("DELETE FROM free_texts WHERE text = 'erase me'")
    page = draw(house, "without")
    assert page.column("Searched for")[0] == "(erased)"
    page.choose()
    assert "was erased" in page.shown
    assert "carrel-result" not in page.shown


def test_a_search_of_a_collection_that_is_gone_is_not_widened(house: House) -> None:
    """A search in a deleted collection never becomes a search in the catalog."""
    where = house.add_collection()
    found = house.client.search.search_document_collection("sheep", document_collection_id=where)
    house.client.document_collections.delete_document_collection(where)
    page = house.open("quality", search=str(found.search_id))
    assert "This collection is not available." in page.shown
    assert "carrel-result" not in page.shown


def a_set(house: House, judgements: Mapping[str, Mapping[str, int]] | None = None, **target) -> EvaluationSet:
    one = house.client.admin.evaluation_sets.create(f"Set {uuid4().hex[:8]}", **target)
    evaluation.add_judgements(house.client, one.evaluation_set_id, judgements or {})
    return one


def open_set(house: House, one: EvaluationSet) -> Page:
    return draw(house, "sets", set=str(one.evaluation_set_id))


def test_the_worst_queries_come_first_whoever_asked(house: House) -> None:
    mark = new_word()
    load(house, f"Bad {mark}", "The barge carries coal.")
    for words in (f"Zeppelin  {mark}xyz", f"zeppelin {mark}xyz"):
        search(house, words)
    search(house, f"quixotic{mark} windmills{mark}", mode="HYBRID")
    down = search(house, f"{mark} barge with coal {MARKUP}", mode="HYBRID")
    judge(house, down)
    page = house.open("quality")
    table = page.dataframe[0].value
    mine = table[table["Query"].str.contains(mark)]
    assert mine["Thumbs down"].tolist() == [1, 0, 0]
    assert mine["Without results"].tolist() == [0, 2, 0]
    assert mine["Words not found"].tolist() == [0, 0, 1]
    assert mine["People"].tolist() == [1, 1, 1]
    page = page.choose(int(mine.index[0]))
    page.assert_shown_as_text(MARKUP)
    shown = page.shown
    assert f"part=judge&amp;q={mark}+barge+with" in shown
    assert 'href="documents"' in shown
    assert "who_can_read?resource=UPLOADED_DOCUMENT" in shown


def test_bad_queries_are_weighed() -> None:
    searches = [
        ("once", "ada", 1, {}),
        ("twice", "ada", 2, {}),
        (" Twice", "ben", 3, {}),
        ("down", "ada", 4, {"feedback": SearchFeedback.THUMBS_DOWN, "result_count": 5}),
        ("later", "ada", 5, {}),
        (None, "ada", 6, {}),
        *(("near in meaning alone", one, 0, {"result_count": 5, "has_words": False}) for one in ("ada", "ben")),
        ("of no word at all", "ada", 0, {"has_words": False}),
    ]
    found = worst_first(
        LoggedSearch(
            search_id=uuid4(),
            at=datetime(2026, 1, 1, 9, minute, tzinfo=UTC),
            actor=UserPrincipal(id=person, email=f"{person}@example.test", name=person),
            query=query,
            mode=SearchMode.HYBRID,
            **{"result_count": 0, **more},
        )
        for query, person, minute, more in searches
    )
    four, two = ("down", " Twice", "near in meaning alone"), ("later", "once", "of no word at all")
    told = [(one.search.query, one.badness) for one in found]
    assert told == [*((one, 4) for one in four), *((one, 2) for one in two)]


def test_results_are_judged_with_one_click_and_taken_back_with_another(house: House) -> None:
    mark = uuid4().hex[:6]
    load(house, f"Pier {mark}", f"The pier {mark} opens at six.")
    one = a_set(house)
    question = f"when does pier {mark} open?"
    for label, kept in (("Relevant", {f"Pier {mark}": 2}), ("Partly", {f"Pier {mark}": 1}), ("Partly", {})):
        page = draw(house, "judge", q=question, set=str(one.evaluation_set_id))
        grade(page, label, question, f"Pier {mark}")
        assert house.cases_of(one.evaluation_set_id) == {question: kept}


def grade(page: Page, label: str, question: str, external_id: str) -> Page:
    [button] = [one for one in page.button if one.label == label and f".{question}.{external_id}." in str(one.key)]
    return button.click().run()


def test_a_document_that_is_not_found_can_be_judged(house: House) -> None:
    one = a_set(house)
    page = draw(house, "judge", q="zyx nothing", set=str(one.evaluation_set_id))
    page.text_input(key="judge.name").set_value(MARKUP)
    page = next(each for each in page.button if each.label == "Relevant" and each.form_id).click().run()
    assert house.cases_of(one.evaluation_set_id) == {"zyx nothing": {MARKUP: 2}}
    page.assert_shown_as_text(MARKUP)


def test_judging_without_a_set_offers_to_make_one(new_house: House) -> None:
    page = draw(new_house, "judge", q="how high are the waves?")
    assert "No evaluation sets for searches yet." in page.shown
    page = page.press("New set")
    page.text_input(key="sets.name").set_value("Waves")
    page = page.answer("New set", "Create")
    assert page.address["q"] == "how high are the waves?"
    assert "set" in page.query_params
    assert "Results of all three search modes" in page.shown


def test_judging_offers_no_agents_set_unless_the_address_names_it(house: House) -> None:
    """An agent's judgements are about citations, not about search results."""
    agent = house.client.admin.agents.create(f"Purser {uuid4().hex[:6]}")
    searches, answers = a_set(house), a_set(house, agent_id=agent.agent_id)
    for address, one in (({}, searches), ({"set": str(answers.evaluation_set_id)}, answers)):
        page = draw(house, "judge", **address)
        [chosen] = [each for each in page.selectbox if each.label == "Evaluation set"]
        assert chosen.value == str(one.evaluation_set_id)
        assert any(answers.name in option for option in chosen.options) is (one is answers)


def write_question(page: Page, question: str, statements: str = "") -> Page:
    page.text_area(key="sets.question").set_value(question)
    if statements:
        page.text_area(key="sets.statements").set_value(statements)
    return page.press_key("sets.add.submit")


def test_a_question_is_added_on_the_page_of_its_set(house: House) -> None:
    one = a_set(house, {"dogs": {"fares": 2}})
    page = open_set(house, one).press("Add a question").answer("Add a question", "Add")
    assert "Enter a question." in page.shown
    page = write_question(page, " cats ")
    assert house.cases_of(one.evaluation_set_id) == {"dogs": {"fares": 2}, "cats": {}}
    assert (page.address["part"], page.address["q"]) == ("judge", "cats")
    write_question(open_set(house, one).press("Add a question"), "dogs")
    assert house.cases_of(one.evaluation_set_id) == {"dogs": {"fares": 2}, "cats": {}}
    agent = house.client.admin.agents.create(f"Steward {uuid4().hex[:6]}")
    answers = a_set(house, agent_id=agent.agent_id)
    page = house.open("agents", agent=str(agent.agent_id), part="answers", set=str(answers.evaluation_set_id))
    page = page.press("Add a question")
    page.text_area(key="sets.question").set_value("When is lunch?")
    page.text_area(key="sets.statements").set_value(" at noon \n\nat noon\non deck")
    assert "Next, choose the documents" in page.shown
    page = page.checkbox(key="sets.nothing").check().run()
    assert "Next, choose the documents" not in page.shown
    page = page.press_key("sets.add.submit")
    assert "has relevant documents or statements" in page.shown
    page.text_area(key="sets.statements").set_value("")
    page.press_key("sets.add.submit")
    assert "Documents that the reply should cite" in [each.value for each in page.subheader]
    assert "No answer expected” is selected above" in page.shown
    assert "Relevant" not in page.labels
    [case] = house.client.admin.evaluation_sets.list_cases(answers.evaluation_set_id)
    assert (case.question, case.nothing_answers) == ("When is lunch?", True)
    page = page.press("All questions of the set").press("Add a question")
    page = write_question(page, "When is tea?", " at four \n\nat four\non deck")
    *_, case = house.client.admin.evaluation_sets.list_cases(answers.evaluation_set_id)
    assert (case.question, case.statements, case.note) == ("When is tea?", ["at four", "on deck"], None)
    page = page.press("All questions of the set").press("Add a question")
    assert "This question is already in the set" in write_question(page, "When is tea?", "at five").shown
    judgements = [{"document_external_id": name, "grade": grade} for name, grade in (("a", 2), ("b", 1), ("c", 0))]
    cases = [
        {"question": "dogs", "judgements": judgements, "statements": ["free"]},
        {"question": "eels", "judgements": judgements[2:]},
    ]
    house.client.admin.evaluation_sets.put_judgements(answers.evaluation_set_id, cases)
    page = house.open("agents", agent=str(agent.agent_id), part="answers", set=str(answers.evaluation_set_id))
    assert page.dataframe[0].value.set_index("Question")["Expected reply"].to_dict() == {
        "dogs": "2 documents, 1 statement",
        "eels": "Any answer",
        "When is lunch?": "No answer",
        "When is tea?": "2 statements",
    }


def test_sets_are_listed_renamed_and_deleted(house: House) -> None:
    one = a_set(house, {"dogs": {"fares": 2, "rules": 0}})
    page = draw(house, "sets")
    table = page.dataframe[0].value
    row = table[table["Name"] == one.name]
    assert (row["Questions"].item(), row["Target"].item()) == (1, "The whole catalog")
    page = open_set(house, one)
    assert f"{one.name}</h2>" in page.shown
    page = page.press("Rename")
    page.text_input(key="sets.new_name").set_value(f"{one.name} {MARKUP}")
    page = page.press_key("sets.rename.submit")
    assert html.escape(MARKUP) in page.shown
    [kept] = house.client.admin.evaluation_sets.list(ids=[one.evaluation_set_id])
    assert kept.name == f"{one.name} {MARKUP}"
    page.press("Delete …").press("Delete")
    assert not list(house.client.admin.evaluation_sets.list(ids=[one.evaluation_set_id]))


def import_file(page: Page, data: bytes) -> Page:
    page.file_uploader(key="sets.file").set_value(("judged.csv", data, "text/csv"))
    return page.press("Add to set")


def test_a_file_is_imported_and_exported_as_it_was(house: House) -> None:
    one = a_set(house, {"dogs": {"fares": 1}})
    page = open_set(house, one)
    data = b'query,external id,grade\ndogs,rules,2\n"=1+1",@sum,-1\nopen question,,\n'
    page = import_file(page, data)
    expected = {"dogs": {"fares": 1, "rules": 2}, "=1+1": {"@sum": 0}, "open question": {}}
    assert house.cases_of(one.evaluation_set_id) == expected
    assert "the grade must be a whole number" in import_file(page, data + b"cats,x,high\n").shown
    assert house.cases_of(one.evaluation_set_id) == expected
    sets, other = house.client.admin.evaluation_sets, a_set(house)
    whole = {"question": "whole", "judgements": [{"document_external_id": "a,b", "grade": 3}], "note": ' =to\n"all" '}
    sets.put_judgements(
        one.evaluation_set_id,
        [
            {**whole, "statements": ["at noon, daily", "=2"]},
            {"question": "none", "nothing_answers": True, "note": "'@"},
            {"question": "said", "statements": ["two", "three"]},
        ],
    )
    kept = [case.model_dump(exclude={"case_id"}) for case in sets.list_cases(one.evaluation_set_id)]
    exported = open_set(house, one).press("Export as CSV").exported
    assert "'=1+1,'@sum,0" in exported
    assert read(exported) == read(write(read(exported))) == house.cases_of(one.evaluation_set_id)
    import_file(open_set(house, other), exported.encode())
    assert [case.model_dump(exclude={"case_id"}) for case in sets.list_cases(other.evaluation_set_id)] == kept


def test_a_set_is_measured_in_modes_and_the_runs_are_compared(house: House) -> None:
    mark = uuid4().hex[:6]
    load(house, f"one-{mark}", f"The {mark} ferry leaves at nine.")
    load(house, f"two-{mark}", f"The {mark} canteen has soup.")
    one = a_set(
        house, {f"{mark} ferry": {f"one-{mark}": 2}, f"{mark} canteen": {f"two-{mark}": 2}, "open question": {"x": 0}}
    )
    page = open_set(house, one)
    page.multiselect(key="sets.modes").set_value([SearchMode.LEXICAL, SearchMode.SEMANTIC])
    page.text_input(key="sets.note").set_value("Before")
    page = page.press("Run")
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
    page = page.press("Run")
    assert len(list(sets.list_runs(one.evaluation_set_id))) == 3
    assert "nDCG over time" in [each.value for each in page.subheader]
    [chart] = page.get("vega_lite_chart")
    assert len(set(drawn(chart)["At"])) == 2  # runs of one minute, too
    changes = page.cells("Question", "Change", table=page.list_with("Change"))
    assert changes == [(f"{mark} ferry", "-1.000"), (f"{mark} canteen", "0")]
    assert "1 worse, 0 better, 1 unchanged." in page.shown


def test_a_stopped_run_is_kept_as_far_as_it_came_and_goes_on(house: House) -> None:
    load(house, "buoy", "The buoy blinks green.")
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
    assert "Stopped: 1 of 3 questions." in page.shown
    assert "questions. The run is not complete" in page.shown
    runs = list(sets.list_runs(one.evaluation_set_id))
    half = {run.mode: run.evaluation_run_id for run in runs}
    assert [run.planned_count for run in runs] == [3, 3]
    assert page.dataframe[0].value["Questions"].tolist() == ["1 of 3", "2 of 3"]
    page.press("Continue")
    runs = list(sets.list_runs(one.evaluation_set_id))
    assert {run.mode: run.evaluation_run_id for run in runs} == half
    assert [run.case_count for run in runs] == [3, 3]
    keepers[0].measure(cases[0])
    for run in runs:
        sets.delete_run(one.evaluation_set_id, run.evaluation_run_id)
    running.stopped = True
    page.session_state["sets.run"] = running
    page.run()
    assert "The last questions are not saved." in page.shown
    assert "Stopped" not in page.press("End run").shown


def test_what_cannot_be_measured_is_said(house: House) -> None:
    page = open_set(house, a_set(house, {"dogs": {"fares": 0}})).press("Run")
    assert "No question of this set has a relevant document." in page.shown
    page.multiselect(key="sets.modes").set_value([])
    assert "Choose at least one search mode." in page.press("Run").shown
    collection = house.add_collection()
    one = a_set(house, {"dogs": {"fares": 1}}, document_collection_id=collection)
    house.client.document_collections.delete_document_collection(collection)
    page = open_set(house, one)
    assert "A deleted collection" in page.shown
    assert "There is no such collection." in page.press("Run").shown
    assert not list(house.client.admin.evaluation_sets.list_runs(one.evaluation_set_id))
    page.press("End run")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_judgements_are_read_as_spreadsheets_write_them(delimiter: str) -> None:
    lines = [["Query", "External ID", "Grade"], ["dogs", "fares", "2"], ["dogs", "rules", ""], ['"a; b,\tc"', "x", "1"]]
    text = "\ufeff" + "\r\n".join(delimiter.join(line) for line in lines)
    assert read(text.encode()) == {"dogs": {"fares": 2, "rules": 1}, "a; b,\tc": {"x": 1}}


CASES = "query,external id,grade,statement,nothing answers,note\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *cases("judgements_that_are_none_are_said"),
        (f"{CASES}q,,,,maybe", "yes or no"),
        (f"{CASES}q,,,,,a\nq,,,,,b", "a query has one note"),
        (f"{CASES}q,,,{'x' * 1001}", "at most 1,000 characters"),
        (CASES + "\n".join(f"q,,,s{number}" for number in range(21)), "at most 20 statements"),
        ("query,id\n" + "".join(f"q{number},x\n" for number in range(2001)), "a set has at most 2,000"),
        ("query,id\n" + "".join(f"q,x{number}\n" for number in range(201)), "A query has at most 200 documents"),
    ],
)
def test_judgements_that_are_none_are_said(text: str, said: str) -> None:
    for read_it in (read, read_cases):
        with pytest.raises(JudgementsError) as refused:
            read_it(text)
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
    with pytest.raises(JudgementsError) as refused:
        read(data)
    assert len(str(refused.value)) < 300


def test_a_file_of_nothing_but_mistakes_is_answered_in_a_few_lines() -> None:
    with pytest.raises(JudgementsError) as refused:
        read("query,external id,grade\n" + "x,y,z\n" * 50)
    assert len(refused.value.problems) == 11
    assert refused.value.problems[-1] == "… and 40 more"
