"""What results show in IPython: HTML in which all foreign text is text, and plain text that says as much."""

from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from IPython.core.formatters import DisplayFormatter

from carrel import AsyncCarrel, Carrel, Reply
from carrel._display import MOST_ROWS
from carrel.wire.catalog import ListDocumentsResponse
from carrel.wire.common import Tabular
from carrel.wire.people import AdminUsersInviteResponse
from carrel.wire.permissions import ExplainAuthorizationResponse
from carrel.wire.search import SearchDocumentCatalogResponse, SearchDocumentCollectionResponse
from carrel.wire.uploads import PlanUploadResponse
from tests.client.conftest import API_KEY
from tests.client.samples import AT, DOCUMENT, FOUND, FOUND_CHUNKS, OTHER_ID, RESOURCE, SOURCE
from tests.client.server import Server, json_answer, refuse
from tests.harness.cases import cases

TAGS = "div p strong a mark ol li span small br bdi table thead tbody tr th td"
ATTRIBUTES = {"class", "style", "dir", "href", "target", "rel", "scope"}
HOSTILE: list[str] = cases("hostile_texts")


class Shown(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.marked: list[str] = []
        self._in_mark = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in_mark = tag == "mark"

    def handle_endtag(self, tag: str) -> None:
        self._in_mark = self._in_mark and tag != "mark"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_mark:
            self.marked.append(data)


def shown(result, *, once: bool = False) -> tuple[Shown, str]:
    """Return the HTML and the plain text that IPython shows of a result. `once`: showing it makes a request."""
    bundle, _ = DisplayFormatter().format(result)
    html = bundle["text/html"]
    assert once or result._repr_html_() == html
    return Shown(html), bundle["text/plain"]


def searched(*, name: str = "Travel", text: str = "book a train", matches: Sequence[tuple[int, int]] = ((7, 12),)):
    spans = [{"start": start, "end": end} for start, end in matches]
    result = FOUND["results"][0] | {"documentName": name, "snippet": {"text": text, "matches": spans}}
    return SearchDocumentCatalogResponse.model_validate({**FOUND, "results": [result]})


def explained(**members: object) -> ExplainAuthorizationResponse:
    path = [
        {"type": "user", "id": OTHER_ID, "name": "Ada", "email": "ada@example.com"},
        {"type": "group", "id": OTHER_ID, "name": "Travel desk"},
        {"type": "grant", "role": "EDITOR"},
        {"type": "resource", "id": "page-1", "name": "Travel"},
    ]
    return ExplainAuthorizationResponse.model_validate({"authorized": True, "paths": [path], **members})


def replied(text: str, *, quote: str = "three weeks ahead", url: str | None = None, name: str = "Travel") -> Reply:
    source = SOURCE | {"name": name, "url": url, "quote": quote}
    members = {"text": text, "sources": [source], "warnings": ["A source was left out."]}
    ids = dict.fromkeys(("conversationId", "messageId", "auditLogId"), OTHER_ID)
    return Reply.model_validate(members | ids)


def listed(**members: object) -> ListDocumentsResponse:
    return ListDocumentsResponse.model_validate({"documents": [DOCUMENT | members]})


def planned(*actions: str) -> PlanUploadResponse:
    documents = [{"documentExternalId": f"page-{number}", "action": action} for number, action in enumerate(actions)]
    return PlanUploadResponse.model_validate({"documents": documents})


def test_found_documents_show_where_they_matched() -> None:
    html, text = shown(searched())
    assert html.marked == ["train"]
    assert "Travel" in html.text
    assert text.splitlines() == ["1 document", "1. Travel", "   relevance 0.90 · travel", "   book a «train»"]


def test_matches_are_counted_in_characters_and_may_be_wrong() -> None:
    """Matches stand where the service says, after characters of any width; odd ones break nothing, lose no text."""
    html, _ = shown(searched(text="🚂🚂 train", matches=[(3, 8)]))
    assert html.marked == ["train"]
    html, text = shown(searched(text="a train", matches=[(5, 99), (2, 6), (6, 3), (-4, 1)]))
    assert "a train" in html.text
    assert text.splitlines()[-1].replace("«", "").replace("»", "").strip() == "a train"


def test_found_passages_show_their_document() -> None:
    html, text = shown(SearchDocumentCollectionResponse.model_validate(FOUND_CHUNKS))
    assert text.splitlines()[:2] == ["2 passages of 1 document", "1. Travel"]
    assert all("or a ferry" in one for one in (html.text, text))


def test_an_explanation_is_a_chain() -> None:
    html, text = shown(explained(complete=False))
    assert text.splitlines() == [
        "Access",
        "User Ada · ada@example.com → Group Travel desk → Role Editor → Resource Travel",
        "There are more paths than these.",
    ]
    assert html.tags.count("span") == 4
    _, text = shown(explained(authorized=False, paths=[], missing="Ada is in no group with access."))
    assert text.splitlines() == ["No access", "Ada is in no group with access."]


def test_a_plan_is_counted() -> None:
    html, text = shown(planned("CREATE", "UPDATE", "CREATE"))
    assert text.splitlines()[0] == "3 documents: 2 create, 1 update"
    assert html.tags.count("tr") == 4
    assert shown(planned())[1] == "No documents"


def test_a_reply_shows_its_sources() -> None:
    html, text = shown(replied("Early. [1]", url="https://wiki.example.com/travel"))
    assert ("href", "https://wiki.example.com/travel") in html.attributes
    assert ("rel", "noopener noreferrer") in html.attributes
    lines = ["Early. [1]", "Sources", "1. Travel", "   “three weeks ahead”", "Note: A source was left out."]
    assert text.splitlines() == lines


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "http://[broken", " https", "JAVASCRIPT:x"]
)
def test_no_other_address_is_a_link(address: str) -> None:
    html, _ = shown(replied("Early.", url=address))
    assert "a" not in html.tags


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_stays_text(text: str) -> None:
    """Nothing that a document, a person or an agent says becomes a tag, an attribute or a control character."""
    results = [
        searched(name=text, text=text, matches=[(0, 3), (5, 8)]),
        explained(paths=[[{"type": "user", "name": text, "email": text}]], missing=text),
        replied(text, quote=text, name=text),
        listed(documentName=text, customMetadata={text: text}),
        PlanUploadResponse.model_validate({"documents": [{"documentExternalId": text, "action": "CREATE"}]}),
    ]
    clean = text.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\u202e", "\ufffd")
    for result in results:
        html, plain = shown(result)
        assert set(html.tags) <= set(TAGS.split())
        assert {name for name, _ in html.attributes} <= ATTRIBUTES
        assert clean in html.text
        assert not any(char in html.text + plain for char in "\x00\x1b\u202e")


def test_dollars_are_no_formulas_and_nothing_is_fetched() -> None:
    """JupyterLab leaves what stands between dollar signs as it is; no style reaches for another host."""
    html, _ = shown(replied("From $5 to $6"))
    classes = next(value for name, value in html.attributes if name == "class") or ""
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set(classes.split())
    assert not any("url(" in (value or "") for _, value in html.attributes)


def test_long_texts_and_long_lists_are_cut() -> None:
    html, text = shown(searched(text="x" * 1_000_000, matches=[(0, 1_000_000)]))
    assert len(html.text) + len(text) < 20_000
    many = ListDocumentsResponse.model_validate(
        {"documents": [DOCUMENT | {"customMetadata": {f"key {n}": "x" * 10_000}} for n in range(500)]}
    )
    html, text = shown(many)
    assert html.tags.count("tr") == MOST_ROWS + 1
    assert "450 rows" in text
    assert "columns" in text
    assert len(text) < 1_000_000


def test_a_table_has_no_empty_columns() -> None:
    html, _ = shown(listed())
    assert "document_external_url" not in html.text
    assert "2026-01-31 09:30 UTC" in html.text
    assert shown(ListDocumentsResponse.model_validate({"documents": []}))[1] == "0 rows"
    assert "and more on the next page" in shown(listed().model_copy(update={"next_page_token": "more"}))[1]


def test_a_list_shows_its_first_page(server: Server) -> None:
    """A list that ends a cell makes one request, for its first page; an error is shown in the page's place."""
    server.will(json_answer({"documents": [DOCUMENT], "nextPageToken": "more"}))
    with Carrel(API_KEY, base_url=server.base_url) as client:
        html, text = shown(client.catalog.list_documents(), once=True)
        assert "Travel" in html.text
        assert "and more on the next page" in text
        assert len(server.received) == 1
        server.will(refuse(403, message="<b>Not</b> you."))
        html, text = shown(client.catalog.list_documents(), once=True)
        assert "<b>Not</b> you." in html.text
        assert "b" not in html.tags


async def test_an_asynchronous_list_asks_nothing(server: Server) -> None:
    """What can't be awaited to be shown makes no request, and says how it is walked."""
    async with AsyncCarrel(API_KEY, base_url=server.base_url) as client:
        _, text = shown(client.catalog.list_documents(), once=True)
    assert "async for" in text
    assert not server.received


def test_secrets_stay_hidden() -> None:
    class Invitations(Tabular):
        invitations: list[AdminUsersInviteResponse]

    invited = {"url": "https://carrel.example.com/invitation/secret", "expiresAt": AT}
    html, text = shown(Invitations.model_validate({"invitations": [invited]}))
    assert "2026-01-31" in html.text
    assert "secret" not in html.text + text


def test_one_formatting_is_enough_for_results() -> None:
    assert repr(searched()).startswith("SearchDocumentCatalogResponse(")
    assert AT[:4] in repr(searched())
    assert str(RESOURCE["resourceId"]) in repr(searched())
