"""The search page in all its states, on the real service."""

import html
import re
from datetime import date
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr
from streamlit.testing.v1 import AppTest

from app.auth import container
from app.search.relevance import count_strong
from app.ui.passages import link_html
from carrel import Carrel
from carrel.wire.search import FilterOperator, SearchMode
from service.text.reranking import Reranker
from tests.app.conftest import NOBODY_LISTENS, House, Open, SetUp, draw, html_of, markdown_of, sign_in
from tests.app.pressing import button, press
from tests.harness.proxy import Fault, faulty
from tests.harness.reranking import KEY, serving_reranking
from tests.harness.services import RunningService
from tests.oauth.flow import PASSWORD, a_person

HOSTILE = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "**bold** [here](https://evil.example)",
    "https://evil.example/x",
    ":material/home: -> :red[x]",
    "a\n===\n\n    code",
    '"><iframe src="https://evil.example">',
)


@pytest.fixture
def client(service: RunningService) -> Any:
    """The admin's client."""
    with Carrel(service.api_key, service.base_url) as client:
        yield client


def load(client: Carrel, name: str, text: str, **options: Any) -> str:
    """Put a document into the catalog; return its id."""
    identifier = options.pop("identifier", name)
    uploaded = client.catalog.upload_file(
        text.encode(),
        document_external_id=identifier,
        document_name=name,
        file_name="note.txt",
        await_vector_store_sync=True,
        **options,
    )
    return str(uploaded.document_id)


def ask(page: AppTest, words: str) -> AppTest:
    """Fill in the form and send it."""
    page.text_input(key="words").set_value(words)
    return page.button[0].click().run()


def searches(service: RunningService) -> int:
    """How many searches the service has answered."""
    with service.owner_connection() as connection:
        row = connection.execute("SELECT count(*) FROM searches").fetchone()
    return int(row[0]) if row else 0


def thumb(page: AppTest, word: str) -> AppTest:
    """Say that the first result was helpful, or was not."""
    return next(button for button in page.button if button.label == word).click().run()


def feedbacks(client: Carrel) -> list[Any]:
    """The audit log's entries of feedback, oldest first."""
    return sorted(client.admin.audit_log.query(action="search.feedback"), key=lambda entry: entry.at)


def test_before_a_question_nothing_is_asked(open_page: Open, service: RunningService) -> None:
    """The page invites, and has not searched; a question of blanks is none."""
    page = open_page("search")
    assert not page.exception
    assert "Ask in your own words" in page.caption[0].value
    ask(page, "   ")
    assert "Ask in your own words" in page.caption[0].value
    assert searches(service) == 0


def test_results_are_marked_and_the_address_tells_the_question(open_page: Open, client: Carrel) -> None:
    """What matched is marked, and the address holds the words and mode to ask the same again."""
    load(client, "Livestock", "Sheep travel on deck, at most 120.", internal_public=True)
    page = open_page("search")
    page.get_by_key("mode").set_value(SearchMode.LEXICAL)
    ask(page, "sheep")
    assert "<mark>Sheep</mark>" in html_of(page)
    assert re.search(
        r">Relevance<div class=\"carrel-score\" role=\"meter\"[^>]* aria-valuetext=\"high\"", html_of(page)
    )
    address = {name: str(value) for name, value in page.query_params.items()}
    assert address == {"q": "sheep", "by": "lexical"}
    again = open_page("search", **address)
    assert html_of(again) == html_of(page)


def test_searches_are_saved_and_recent_ones_listed_for_the_person_alone(house: House) -> None:
    """One click does one again, with its filters; a second click takes it away. Words of others stand nowhere."""
    mark, email = uuid4().hex[:6], f"own-{uuid4().hex[:6]}@example.test"
    a_person(house.service, email)
    house.client.search.search_document_catalog(f"secret of the admin {mark}")
    house.client.search.save_search(f"saved by the admin {mark}")
    page = house.open("search", signed_in_as=email)
    assert "What you search for is listed here" in html_of(page)
    assert "choose “Save this search”" in html_of(page)
    hostile = f"{HOSTILE[2]} {mark}"
    page = house.open("search", signed_in_as=email, q=hostile, by="lexical", only=["team:is:deck"])
    page = press(page, "Save this search")
    assert button(page, "Saved")
    page = house.open("search", signed_in_as=email)
    listed = [each for each in page.button if str(each.key).startswith("own.")]
    assert [str(each.key) for each in listed] == ["own.saved.0", "own.recent.0"]
    assert all(mark in each.label and each.label.startswith("`") for each in listed)
    assert "admin" not in " ".join(each.label for each in listed)
    assert "Keywords · team is deck</p>" in html_of(page)
    page = listed[0].click().run()
    assert not page.exception
    assert page.text_input(key="words").value == hostile
    assert page.query_params.get("only") in (["team:is:deck"], "team:is:deck")
    page = press(page, "Saved")
    assert button(page, "Save this search")
    page = house.open("search", signed_in_as=email)
    assert [str(each.key) for each in page.button if str(each.key).startswith("own.")] == ["own.recent.0"]
    [kept] = house.client.search.list_saved_searches().searches
    assert kept.search_query == f"saved by the admin {mark}"
    house.client.search.delete_saved_search(kept.saved_search_id)


def test_a_hundred_saved_searches_are_enough(house: House) -> None:
    """The page says so beside the button, and what to do; most of them are folded."""
    email = f"many-{uuid4().hex[:6]}@example.test"
    a_person(house.service, email)
    with house.service.owner_connection() as connection:
        connection.execute(
            "INSERT INTO saved_searches (saved_search_id, organization_id, principal_id, search_query, mode,"
            " metadata_filters) SELECT gen_random_uuid(), organization_id, principal_id, 'number ' || n, 'HYBRID', '[]'"
            " FROM principals, generate_series(1, 100) n WHERE email = %s",
            [email],
        )
    page = house.open("search", signed_in_as=email)
    assert [each.label for each in page.expander] == ["90 more"]
    page = press(house.open("search", signed_in_as=email, q="one more"), "Save this search")
    assert "You have saved 100 searches" in html_of(page)


def test_a_passage_does_not_say_the_name_again(open_page: Open, client: Carrel) -> None:
    """A title that opens the text stands above it already; the marks stay where the words are."""
    load(client, "Sheep on deck", "Sheep on deck\nAt most 120 sheep travel.", identifier="note")
    shown = html_of(open_page("search", q="travel"))
    assert shown.count("Sheep on deck") == 1
    assert "At most 120 sheep <mark>travel</mark>." in shown


def test_what_is_true_or_false_is_said_in_words(open_page: Open, client: Carrel) -> None:
    """Other values of an organization's fields stand as they are."""
    load(client, "Rota", "Who is on deck.", custom_metadata={"secret": "false", "signed": "true", "team": "False"})
    assert "team: False · secret: no · signed: yes" in html_of(open_page("search", q="deck"))


def test_a_passage_from_the_middle_of_a_sentence_says_so(open_page: Open, client: Carrel) -> None:
    """The marks stay where the words are."""
    load(client, "Livestock", "on deck travel at most 120 sheep.")
    assert ">… on deck travel at most 120 <mark>sheep</mark>." in html_of(open_page("search", q="sheep"))


def test_an_address_asks_and_is_asked_once(open_page: Open, client: Carrel, service: RunningService) -> None:
    """A deep link searches when opened; drawing the page again asks nothing, sending the form asks anew."""
    load(client, "Livestock", "Sheep travel on deck.")
    page = open_page("search", q="sheep", **{"in": "catalog"})
    assert "<mark>Sheep</mark>" in html_of(page)
    page.run()
    assert searches(service) == 1
    page.button[0].click().run()
    assert searches(service) == 2


def test_going_back_fills_the_form_again(open_page: Open, client: Carrel) -> None:
    """Another address in the same session (the browser's back) is another question, in the form too."""
    load(client, "Livestock", "Sheep travel on deck.")
    load(client, "Kitchen", "Soup is served at noon.")
    page = open_page("search", q="sheep", by="lexical")
    page.query_params["q"] = "soup"
    page.run()
    assert page.text_input(key="words").value == "soup"
    assert "<mark>Soup</mark>" in html_of(page)
    assert "Sheep" not in html_of(page)


def test_nothing_found_says_so(open_page: Open) -> None:
    """An empty answer tells whose it is and what to try."""
    page = open_page("search", q="sheep", by="lexical")
    assert "Nothing that you may read answers this. Try other words or a hybrid search" in page.info[0].value


def test_many_results_come_in_three_sizes(open_page: Open, client: Carrel) -> None:
    """Ten results are shown first, and thirty when more are asked for; drawing again keeps them."""
    for number in range(34):
        load(client, f"Note {number}", f"Ferry number {number} leaves the pier.")
    page = open_page("search", q="ferry")
    assert html_of(page).count("<article") == 10
    more(page).click().run()
    assert html_of(page).count("<article") == 30
    page.run()
    assert html_of(page).count("<article") == 30
    more(page).click().run()
    assert html_of(page).count("<article") == 34
    assert more(page) is None


def more(page: AppTest) -> Any:
    """The button that asks for more results."""
    return next((button for button in page.button if button.label == "Show more"), None)


def test_a_collection_is_searched_by_its_chunks(open_page: Open, client: Carrel) -> None:
    """In a collection the chunks are shown with the search's terms marked, and the document's metadata."""
    collection = new_collection(client, "Handbook")
    document = load(client, "Livestock", "Sheep travel on deck.\n\nOther animals stay ashore.")
    client.document_collections.add_document_to_collection(
        document_id=document, document_collection_id=collection, custom_metadata={"team": "deck"}
    )
    page = open_page("search", q="sheep", **{"in": collection})
    assert page.selectbox(key="place").value == collection
    assert "<mark>Sheep</mark> travel on deck." in html_of(page)
    assert "team: deck" in html_of(page)


def test_a_person_finds_only_what_that_person_may_read(open_page: Open, client: Carrel) -> None:
    """A search shows neither others' documents nor that there are any."""
    load(client, "Board minutes", "The offer for HERON was refused.")
    client.admin.users.upsert([{"email": "jonas@example.test", "name": "Jonas", "password": PASSWORD}])
    page = open_page("search", signed_in_as="jonas@example.test", q="HERON")
    assert "HERON" not in html_of(page)
    assert "Nothing that you may read" in page.info[0].value
    assert "<mark>HERON</mark>" in html_of(open_page("search", q="HERON"))


@pytest.mark.parametrize(
    "address",
    [{"in": "no-such-collection"}, {"in": "0198c5b0-0000-7000-8000-000000000000"}],
)
def test_an_address_that_names_what_is_not_there_is_not_searched(
    open_page: Open, service: RunningService, address: dict[str, str]
) -> None:
    """An unknown collection in the address never widens the search to something else."""
    page = open_page("search", q="sheep", **address)
    assert not page.exception
    assert "isn&#x27;t there" in html_of(page)
    assert searches(service) == 0
    ask(page, "sheep")
    assert searches(service) == 1


def test_a_question_that_is_too_long_is_said_before_anybody_is_asked(open_page: Open, service: RunningService) -> None:
    """In words; what was written stays in the form, and the address stays as short as it was."""
    page = ask(open_page("search"), "x" * 1001)
    assert "This question is too long: 1,001 characters." in html_of(page)
    assert "Ask in 1,000 at most." in html_of(page)
    assert page.text_input(key="words").value == "x" * 1001
    assert "q" not in page.query_params
    assert "too long: 9,000 characters." in html_of(open_page("search", q="x" * 9000))
    assert searches(service) == 0
    assert "too long" not in html_of(ask(page, "x" * 1000))
    assert searches(service) == 1


def test_an_address_with_what_no_question_holds_is_asked_without(open_page: Open, service: RunningService) -> None:
    """A NUL, which the service refuses, and a way to search that there is none of, are no traceback and no error."""
    page = open_page("search", q="a\0b", by="nonsense")
    assert not page.exception
    assert "carrel-problem" not in html_of(page)
    assert searches(service) == 1


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_of_others_is_shown_as_it_is(open_page: Open, client: Carrel, hostile: str) -> None:
    """Names, metadata and passages are escaped HTML and never Markdown, in the catalog and in a collection."""
    collection = new_collection(client, "Handbook")
    document = load(client, hostile, f"Sheep {hostile} sheep {hostile}", identifier=f"id {hostile}")
    client.document_collections.add_document_to_collection(
        document_id=document, document_collection_id=collection, custom_metadata={"team": hostile}
    )
    for where in ("catalog", collection):
        page = open_page("search", q="sheep", **{"in": where})
        shown = html_of(page)
        assert "<mark>Sheep</mark>" in shown
        assert html.escape(hostile.split(maxsplit=1)[0]) in shown.partition("</header>")[2].partition("carrel-facts")[0]
        assert f'target="_self">{html.escape(hostile)}</a></h2>' in shown
        assert not any(tag in shown for tag in ("<script", "<img", "<iframe"))
        # The document's name leads to the first passage.
        leading = shown.count('class="carrel-passage"')
        assert re.findall(r'<a href="/?(\w+)', shown) == ["help", *["documents"] * leading]
        assert shown.count("<a ") == 1 + leading
        assert "evil" not in markdown_of(page)
        assert "alert" not in markdown_of(page)
        assert "material/home" not in markdown_of(page)


def test_a_result_leads_to_its_source(open_page: Open, client: Carrel) -> None:
    """A document's web address is its path, a link that opens beside the workbench; else its identifier is."""
    load(client, "Livestock", "Sheep travel on deck.", document_external_url="https://wiki.example/a?b=1&c=2")
    load(client, "Goats", "Sheep follow goats.", identifier="deck/goats.txt")
    shown = html_of(open_page("search", q="sheep"))
    address = "https://wiki.example/a?b=1&amp;c=2"
    assert f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a> · admin' in shown
    assert '<p class="carrel-facts">deck/goats.txt · admin' in shown


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//evil.example", "", None])
def test_only_web_addresses_are_links(url: str | None) -> None:
    """Nothing but http and https can be followed, whatever a service says."""
    assert link_html("Livestock", url) == "Livestock"


def test_a_web_address_ends_where_it_ends() -> None:
    """Quotes in an address don't end the link's attribute."""
    shown = link_html("a", "https://x/\"onmouseover='alert(1)'>")
    assert shown.startswith('<a href="https://x/&quot;onmouseover=&#x27;alert(1)&#x27;&gt;" target=')


def test_a_thumb_is_sent_once(open_page: Open, client: Carrel) -> None:
    """A thumb reaches the audit log once, however often it is pressed or drawn; a changed mind is sent too."""
    document = load(client, "Livestock", "Sheep travel on deck.")
    page = open_page("search", q="sheep")
    thumb(page, "Helpful")
    thumb(page, "Helpful")
    page.run()
    entries = feedbacks(client)
    assert [entry.details["feedback"] for entry in entries] == ["THUMBS_UP"]
    assert document in str(entries[0])
    thumb(page, "Not helpful")
    page.run()
    assert [entry.details["feedback"] for entry in feedbacks(client)] == ["THUMBS_UP", "THUMBS_DOWN"]


def test_a_comment_is_sent_once_and_the_field_is_empty_again(open_page: Open, client: Carrel) -> None:
    """A comment reaches the audit log once, however often it is sent; an empty one does not."""
    load(client, "Livestock", "Sheep travel on deck.")
    page = open_page("search", q="sheep")
    assert not page.text_area
    thumb(page, "Not helpful")
    send_comment(page, "And goats?")
    assert page.text_area[0].value == ""
    assert "Thank you." in page.toast[0].value
    page.run()
    send_comment(page, "  ")
    send_comment(page, "And goats?")
    assert len(feedbacks(client)) == 2
    send_comment(page, "And geese?")
    assert len(feedbacks(client)) == 3


def send_comment(page: AppTest, comment: str) -> None:
    """Fill in the comment's form and send it."""
    page.text_area[0].set_value(comment)
    next(button for button in page.button if button.label == "Send the comment").click().run()


def test_feedback_that_fails_is_said_beside_its_result(
    open_page: Open, client: Carrel, service: RunningService
) -> None:
    """When the service refuses feedback, the thumb is not shown as given, and the other results stay."""
    load(client, "Livestock", "Sheep travel on deck.")
    load(client, "Fares", "Sheep pay half.")
    page = open_page("search", q="sheep")
    with service.owner_connection() as connection:
        connection.execute("DELETE FROM searches")
    thumb(page, "Helpful")
    assert not page.exception
    assert "Comment" not in [area.label for area in page.text_area]
    assert html_of(page).count("<article") == 2
    assert html_of(page).count("carrel-problem") == 1


def test_details_tell_the_readers_and_give_the_file(open_page: Open, client: Carrel) -> None:
    """The dialog names the file and who may read it, and is only asked for when it is opened."""
    group = client.admin.groups.upsert([{"name": "Deck <b>crew</b>"}]).groups[0]
    load(client, "Livestock", "Sheep travel on deck.", allowed_group_ids=[group.id])
    page = open_page("search", q="sheep")
    assert "Direct access" not in html_of(page)
    details(page).click().run()
    assert not page.exception
    assert "Deck &lt;b&gt;crew&lt;/b&gt; (group)" in html_of(page)
    assert "note.txt (21 bytes)" in html_of(page)
    assert page.download_button[0].label == "Download"


def test_details_of_what_was_taken_away_are_refused(open_page: Open, client: Carrel) -> None:
    """Results on the screen give nothing further once the grant is gone."""
    client.admin.users.upsert([{"email": "jonas@example.test", "name": "Jonas", "password": PASSWORD}])
    document = load(client, "Livestock", "Sheep travel on deck.", internal_public=True)
    page = open_page("search", signed_in_as="jonas@example.test", q="sheep")
    client.admin.grants.set({"resourceId": document, "resourceType": "UPLOADED_DOCUMENT"}, [])
    details(page).click().run()
    assert "carrel-problem" in html_of(page)
    assert not page.download_button


def details(page: AppTest) -> Any:
    """The first result's button for its details."""
    return next(button for button in page.button if button.label == "Details")


def test_a_service_that_is_down_is_explained(service: RunningService, workbench: SetUp) -> None:
    """Without the service the page says which address doesn't answer and how to start it."""
    workbench(service)
    session = sign_in(service)
    workbench(None)
    page = draw("search", session=session, q="sheep")
    assert not page.exception
    assert "The service at http://127.0.0.1:1 doesn&#x27;t answer." in html_of(page)
    assert "make up" in html_of(page)


def test_a_service_that_closes_connections_is_not_called_down(service: RunningService, workbench: SetUp) -> None:
    """Where it is reached but gives no answer, nobody is told to start it: Health says whether it has too many."""
    with faulty(service.base_url) as proxy:
        workbench(service, CARREL_V1_BASE_URL=proxy.base_url)
        session = sign_in(service)
        proxy.rates = {Fault.RESET: 1.0}
        page = draw("search", session=session, q="sheep")
    assert not page.exception
    shown = html_of(page)
    assert "closed the connection before its answer was whole" in shown
    assert "Health" in shown
    assert "make up" not in shown


def test_an_ended_sign_in_offers_the_next(open_page: Open) -> None:
    """When the tokens were taken back, the page leads to signing in, and back to the search that was asked."""
    page = open_page("search", q="sheep")
    tokens = container.sessions().get(page.session_state["signed_in.owner"])
    assert tokens is not None
    container.application().client().revoke(tokens)
    ask(page, "goats")
    assert not page.exception
    assert "/oauth/login?next=" in html_of(page)


FIELDS = {"team": "STRING", "pages": "INT", "weight": "DOUBLE", "due": "DATETIME", "public": "BOOLEAN"}
LAMBS = {"team": "deck", "pages": "3", "weight": "1.5", "due": "2026-01-31", "public": "true"}
GOATS = {"team": "engine: aft", "pages": "40", "weight": "70.25", "due": "2026-03-01", "public": "false"}


@pytest.fixture(scope="module")
def pen(house: House) -> str:
    """A collection whose documents have metadata of every type; its id."""
    collection = new_collection(house.client, "Pen")
    for name, metadata in (("Lambs", LAMBS), ("Goats", GOATS)):
        document = load(house.client, name, f"Sheep and {name} travel on deck.", custom_metadata=metadata)
        house.client.document_collections.add_document_to_collection(
            document_id=document, document_collection_id=collection, custom_metadata=metadata
        )
    return collection


def found(page: AppTest) -> list[str]:
    """The names of the documents a page shows, in alphabetical order."""
    assert not page.exception
    return sorted(part.partition("</a></h2>")[0] for part in html_of(page).split('target="_self">')[1:])


@pytest.mark.parametrize(
    ("operator", "value", "address"),
    [
        (FilterOperator.CONTAINS, "eng", "team:contains:eng"),
        (FilterOperator.GREATER, 3, "pages:over:3"),
        (FilterOperator.NOT_EQUAL, 1.5, "weight:not:1.5"),
        (FilterOperator.GREATER_OR_EQUAL, date(2026, 2, 1), "due:from:2026-02-01"),
        (FilterOperator.EQUAL, "false", "public:is:false"),
    ],
)
def test_a_collection_is_filtered_by_its_fields(
    house: House, pen: str, operator: FilterOperator, value: Any, address: str
) -> None:
    """The condition and the value are those of the field's type; the address has them."""
    page = house.open("search", q="sheep", **{"in": pen})
    assert found(page) == ["Goats", "Lambs"]
    field = address.partition(":")[0]
    page.selectbox(key="only.field").set_value(field).run()
    kind = FIELDS[field]
    page.selectbox(key=f"only.operator.{kind}").set_value(operator)
    shown: Any = {"STRING": page.text_input, "DATETIME": page.date_input, "BOOLEAN": page.selectbox}
    shown.get(kind, page.number_input)(key=f"only.value.{kind}").set_value(value).run()
    page.button(key="only.add").click().run()
    assert found(page) == ["Goats"]
    assert page.query_params["only"] in (address, [address])
    again = house.open("search", q="sheep", only=address, **{"in": pen})
    assert found(again) == ["Goats"]
    again.multiselect(key="only").set_value([]).run()
    assert found(again) == ["Goats", "Lambs"]
    assert "only" not in again.query_params


def test_a_filter_from_the_question_is_taken_away_with_one_click(house: House, pen: str) -> None:
    """It is shown as a chip; without it the search is the same. The others are not kept for another question."""
    page = house.open("search", q="deck documents with more than 2 pages about sheep", **{"in": pen})
    page.toggle(key="reads").set_value(True).run()
    assert found(page) == ["Lambs"]
    assert page.query_params["read"] == ["filters", "questions"]
    drawn = page.multiselect(key="only.drawn")
    assert drawn.options == ["team is deck", "pages more than 2"]
    page = press(press(page, "Save this search"), "Saved")
    drawn = page.multiselect(key="only.drawn")
    drawn.set_value(drawn.value[1:]).run()
    assert found(page) == ["Goats", "Lambs"]
    page.button[0].click().run()
    assert found(page) == ["Goats", "Lambs"]
    assert page.multiselect(key="only.drawn").options == ["pages more than 2"]
    assert page.query_params["drawn"] in ("pages:over:2", ["pages:over:2"])
    page.text_input(key="words").set_value("deck documents about sheep")
    page.button[0].click().run()
    assert page.multiselect(key="only.drawn").options == ["team is deck"]
    assert not {"only", "drawn"} & page.query_params.keys()
    dropped = house.open("search", q="documents with more than 900 pages on sheep", read="filters", **{"in": pen})
    assert found(dropped) == ["Goats", "Lambs"]
    assert "Nothing was found with the filters in the question." in html_of(dropped)


def test_the_best_results_are_reranked_as_the_switch_says(
    house: House, pen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins as the organization has it; without an endpoint there is none, and admins are told how to give one."""
    page = house.open("search")
    assert "operating#reranking" in html_of(page)
    assert not [one for one in page.toggle if one.key == "reranks"]
    runtime = house.service.runtime
    endpoints = {"reranking_api_key": SecretStr(KEY), "model_url": NOBODY_LISTENS, "model_names": ("large",)}
    settings = runtime.settings.model_copy(update=endpoints)
    monkeypatch.setitem(runtime.__dict__, "settings", settings)
    with serving_reranking() as endpoint:
        reranker = Reranker(endpoint.url, settings, share=runtime.share)
        monkeypatch.setitem(runtime.__dict__, "reranker", reranker)
        assert "operating#reranking" not in html_of(house.open("search"))
        try:
            page = house.open("search", q="sheep", **{"in": pen})
            assert not page.toggle(key="reranks").value
            page.toggle(key="reranks").set_value(True)
            page.button[0].click().run()
            assert page.query_params["rerank"] in ("yes", ["yes"])
            assert "A reranking model ordered the best 2." in html_of(page)
            quality = house.open("quality", part="overview")
            for switch in list(quality.toggle):
                switch.set_value(True).run()
                press(press(quality, "Save"), "Change it")
            organization = house.client.admin.organization.get()
            assert (organization.enable_reranking, organization.enable_query_model) == (True, True)
            page = house.open("search", q="sheep", **{"in": pen})
            assert page.toggle(key="reranks").value
            assert "A reranking model ordered the best 2." in html_of(page)
            page.toggle(key="reranks").set_value(False)
            page.button[0].click().run()
            assert page.query_params["rerank"] in ("no", ["no"])
            assert "A reranking model" not in html_of(page)
            assert not house.open("search", q="sheep", rerank="no").toggle(key="reranks").value
            told = house.client.admin.status.get().reranking
            assert told is not None
            assert (told.answered_at is None, told.failed_at) == (False, None)
        finally:
            house.client.admin.organization.update(enable_reranking=False, enable_query_model=False)
            house.service.run(reranker.close())


def test_a_press_that_comes_after_the_fields_were_forgotten_searches_as_the_address_says(
    house: House, pen: str
) -> None:
    """Streamlit forgets them with a run that ends before it draws them; the browser still shows the button."""
    page = house.open("search", q="sheep", by="lexical", **{"in": pen})
    page.button[0].click()
    sent = page._tree.get_widget_states()
    for field in ("place", "mode"):
        del page.session_state[field]
        [state] = [one for one in sent.widgets if one.id.endswith(f"-{field}")]
        sent.widgets.remove(state)
    page._run(sent)
    assert found(page) == ["Goats", "Lambs"]
    assert page.query_params["by"] in ("lexical", ["lexical"])
    assert page.selectbox(key="place").value == pen


def test_a_time_is_on_a_day_whatever_its_hour(house: House) -> None:
    """From the day's beginning until the next one's, in UTC; a moment is that moment alone."""
    collection = new_collection(house.client, f"Watches {uuid4()}")
    for due in ("2026-01-30T23:59:59Z", "2026-01-31", "2026-01-31T23:30:00Z", "2026-02-01"):
        document = load(house.client, f"Watch {due}", "Sheep on watch.")
        house.client.document_collections.add_document_to_collection(
            document_id=document, document_collection_id=collection, custom_metadata={"due": due}
        )

    def on(due: str) -> list[str]:
        page = house.open("search", q="sheep", only=f"due:is:{due}", **{"in": collection})
        assert page.multiselect(key="only").options == [f"due is {due}"]
        return [name.removeprefix("Watch ") for name in found(page)]

    assert on("2026-01-31") == ["2026-01-31", "2026-01-31T23:30:00Z"]
    assert on("2026-01-31T23:30:00Z") == ["2026-01-31T23:30:00Z"]
    assert on("9999-12-31") == []


def test_the_catalog_is_filtered_by_what_documents_say(house: House, pen: str) -> None:
    """By a field's name and a value, whatever stands in them; several narrow together, also in the address."""
    page = house.open("search", q="sheep")
    page.text_input(key="only.name").set_value("team")
    page.text_input(key="only.value.STRING").set_value("engine: aft").run()
    page.button(key="only.add").click().run()
    assert found(page) == ["Goats"]
    page = house.open("search", q="sheep", only=["team:is:engine: aft", "pages:under:50"])
    assert found(page) == ["Goats"]
    assert page.multiselect(key="only").options == ["team is engine: aft", "pages less than 50"]
    page.multiselect(key="only").unselect(page.multiselect(key="only").value[0]).run()
    assert found(page) == ["Goats", "Lambs"]
    del pen


def test_filters_of_one_collection_are_not_another_s(house: House, pen: str) -> None:
    """Searching elsewhere leaves out what has no meaning there."""
    other = house.client.document_collections.create_document_collection("Bare pen")
    page = house.open("search", q="sheep", only="team:is:deck", **{"in": pen})
    page.selectbox(key="place").set_value(str(other.document_collection_id)).run()
    assert not page.exception
    assert found(page) == []
    assert "only" not in page.query_params
    assert "have no fields to filter by" in html_of(page)


@pytest.mark.parametrize("only", ["", "team", "team:like:x", ":is:x", "team:is", "%ff:\0:"])
def test_an_address_with_what_is_no_filter_is_searched_without(house: House, pen: str, only: str) -> None:
    """What can't be understood is left out."""
    assert found(house.open("search", q="sheep", only=only, **{"in": pen})) == ["Goats", "Lambs"]


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ("pages:over:many", "The field is INT"),
        ("colour:is:red", "The collection has these fields"),
        ("team:is:a\0b", ""),
    ],
)
def test_a_filter_that_does_not_fit_is_explained(house: House, pen: str, only: str, said: str) -> None:
    """What the service refuses is said once, without the names of a request's parts, and can be taken away."""
    page = house.open("search", q="sheep", only=only, **{"in": pen})
    assert not page.exception
    assert "carrel-problem" in html_of(page)
    assert not said or html_of(page).count(said) == 1
    assert "structuredQueryFilters" not in html_of(page)
    page.multiselect(key="only").set_value([]).run()
    assert found(page) == ["Goats", "Lambs"]


def test_a_search_that_found_nothing_takes_feedback(house: House, pen: str) -> None:
    """About the search as a whole: something was missing."""
    page = house.open("search", q="zeppelin", by="lexical", **{"in": pen})
    thumb(page, "Not helpful")
    [entry] = [one for one in feedbacks(house.client) if "documentId" not in one.details]
    assert entry.details["feedback"] == "THUMBS_DOWN"


ALONE = "None of the words that matter is in what was found."


@pytest.mark.parametrize("where", ["catalog", "pen"])
def test_what_is_near_in_meaning_alone_is_said(house: House, pen: str, where: str) -> None:
    """A search by words and meaning always finds something; that none of the words is in it is said, and only then."""

    def shown(words: str, **more: str) -> str:
        page = house.open("search", q=words, **{"in": pen if where == "pen" else where}, **more)
        assert "<article" in html_of(page)
        return html_of(page)

    assert ALONE in shown("zxqv flurbish")
    assert ALONE not in shown("zxqv flurbish", by="semantic")
    assert ALONE not in shown("lambing")  # another form of a word that is there
    assert ALONE not in shown("zxqv sheep")


def test_a_word_in_a_name_is_in_what_was_found(house: House, pen: str) -> None:
    """A document is found by its name, too, which no passage of it need have."""
    load(house.client, "Zwieback", "What is baked twice keeps on long crossings.")
    page = house.open("search", q="zwieback")
    assert "Zwieback" in found(page)
    assert ALONE not in html_of(page)
    del pen


def test_what_others_wrote_without_end_is_cut(house: House) -> None:
    """Passages that somebody brought themselves and long metadata leave room for the other results."""
    collection = new_collection(house.client, f"Long {uuid4()}")
    document = load(house.client, "Logbook", "Fog.", custom_metadata={"note": "x" * 5000})
    house.client.document_collections.add_document_chunks_to_collection(
        document_id=document, document_collection_id=collection, chunks=["fog " * 5000], custom_metadata={}
    )
    assert "x" * 200 + " …" in html_of(house.open("search", q="logbook fog"))
    assert html_of(house.open("search", q="fog", **{"in": collection})).count("<mark>") == 500


def test_a_result_leads_to_its_document(house: House, pen: str) -> None:
    """Its name leads to the passage on the page of documents, in the same window."""
    shown = html_of(house.open("search", q="lambs", by="lexical"))
    where = f"documents?document={document_id(house.client, 'Lambs')}&amp;part=text&amp;chunk=0&amp;version=1"
    assert f'href="{where}&amp;search=q%3Dlambs%26by%3Dlexical" target="_self">Lambs</a></h2>' in shown
    del pen


def document_id(client: Carrel, name: str) -> str:
    """The id of the document of this name."""
    return next(str(one.document_id) for one in client.catalog.list_documents(document_name=name))


def new_collection(client: Carrel, name: str) -> str:
    """Make a collection whose documents may have metadata of every type; return its id."""
    fields = [{"name": name, "type": kind} for name, kind in FIELDS.items()]
    created = client.document_collections.create_document_collection(
        collection_name=name, custom_metadata_schema={"fields": fields}
    )
    return str(created.document_collection_id)


@pytest.mark.parametrize(
    ("shares", "strong"),
    [
        ([], 0),
        ([1.0], 1),
        ([1.0, 0.48, 0.48], 1),
        ([1.0, 0.58, 0.58, 0.58], 3),
        ([1.0, 0.7, 0.61, 0.6, 0.59], 4),
        ([1.0, 0.4, 0.4, 0.9], 1),
        ([1.0] * 10, 10),
    ],
)
def test_strong_results_end_where_relevance_falls(shares: list[float], strong: int) -> None:
    """At three fifths of the best result's, for the first three at half of it; by keywords all of them are strong."""
    assert count_strong(shares, SearchMode.HYBRID) == count_strong(shares, SearchMode.SEMANTIC) == strong
    assert count_strong(shares, SearchMode.LEXICAL) == len(shares)


def test_weak_results_are_folded_under_the_strong_ones(open_page: Open, client: Carrel) -> None:
    """The answer stands alone, what is far from it under a line that counts; more of these are asked for in there."""
    load(client, "Waves", "Sailings are cancelled when waves are higher than three metres.")
    for number in range(12):
        load(client, f"Invoice {number}", f"Invoice {number}: printer paper and envelopes, paid by bank transfer.")
    page = open_page("search", q="how high may the waves be")
    less = next(one for one in page.expander if one.label.startswith("Less relevant"))
    assert less.label == "Less relevant (9)"
    inside = "\n".join(element.proto.body for element in less.get("html"))
    assert inside.count("<article") == 9
    assert "Waves" not in inside
    assert html_of(page).count("<article") == 10
    assert more(page).label in [button.label for button in less.button]
    assert not open_page("search", q="invoice", by="lexical").expander


def test_a_result_says_its_format_owner_and_date(open_page: Open, client: Carrel) -> None:
    """Of what the person may read; the format is an icon with its name."""
    client.admin.users.upsert([{"email": "jonas@example.test", "name": "Jonas <b>", "password": PASSWORD}])
    load(client, "Livestock", "Sheep travel on deck.", upload_as_user_email="jonas@example.test", internal_public=True)
    shown = html_of(open_page("search", q="sheep"))
    assert '<span class="carrel-icon" aria-hidden="true" title="Text">description</span>' in shown
    assert re.search(r"Livestock · Jonas &lt;b&gt; · changed \d\d \w{3} \d{4}, ", shown)


def test_further_passages_of_a_document_are_folded(open_page: Open, client: Carrel) -> None:
    """A document stands once, with its best passage and how many more there are."""
    collection = new_collection(client, "Handbook")
    document = load(client, "Livestock", "Sheep.")
    client.document_collections.add_document_chunks_to_collection(
        document_id=document,
        document_collection_id=collection,
        chunks=["Sheep travel.", "Sheep eat.", "Sheep sleep."],
        custom_metadata={},
    )
    shown = html_of(open_page("search", q="sheep", **{"in": collection}))
    assert shown.count("<article") == 1
    assert "<details><summary>2 more passages</summary>" in shown
