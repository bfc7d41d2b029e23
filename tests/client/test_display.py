"""Results and progress in IPython and in terminals: HTML with all foreign text escaped, and bars."""

import asyncio
import fcntl
import io
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from nbclient import NotebookClient

from carrel import APIConnectionError, AsyncCarrel, Carrel, Reply, _uploads
from carrel._display import MOST_ROWS
from carrel._uploads import READ_SIZE
from carrel.wire.catalog import ListDocumentsResponse
from carrel.wire.common import Tabular
from carrel.wire.people import AdminUsersInviteResponse
from carrel.wire.permissions import ExplainAuthorizationResponse
from carrel.wire.search import SearchDocumentCatalogResponse, SearchDocumentCollectionResponse
from carrel.wire.uploads import PlanUploadResponse
from tests.client.conftest import API_KEY
from tests.client.contract import OPERATIONS
from tests.client.samples import AT, DOCUMENT, FOUND, FOUND_CHUNKS, OTHER_ID, RESOURCE, SOURCE, UPLOADED
from tests.client.server import Server, json_answer, refuse
from tests.client.test_files import BIG, Pipe, _upload
from tests.harness.cases import cases, script

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
    """Return the HTML and the plain text shown by IPython. `once`: showing the result makes a request."""
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
    """Positions count characters of any width; wrong positions lose no text."""
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
    """JupyterLab reads text between dollar signs as a formula; styles load no external files."""
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
    """IPython can't await."""
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


CODE = script("display_bars.txt")
BARS = [r"<film>: 100%.*4.00M/4.00M", "Documents: 100%.*1500/1500", r"Reading users: 3 \[", "Reading groups: 100%.*2/2"]


def test_a_terminal_shows_it() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    done = subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    lines = os.read(ours, 100_000).decode().split("\r\n")
    os.close(ours)
    assert done.stdout == b""
    for line, pattern in zip([line for line in lines if line.strip()], BARS, strict=True):
        assert re.search(pattern, line)


def test_a_notebook_keeps_its_end() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    NotebookClient(notebook, kernel_name="python3").execute(transport_encryption="auto")
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data"] * len(BARS)
    for output, pattern in zip(outputs, BARS, strict=True):
        assert re.match(pattern, output.data["text/plain"])
        assert output.data["text/html"].startswith("<progress ")
        assert "<film>" not in output.data["text/html"]


def test_a_file_gets_nothing() -> None:
    """A scheduled job's log stays free of bars; tqdm is optional."""
    without = "import sys\nsys.modules['tqdm.std'] = None\n"
    for code in (CODE, without + CODE):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (b"", b"")


async def test_a_list_tells_how_much_came(caller, server) -> None:
    told: list[tuple[int, int | None]] = []
    page = OPERATIONS["admin/groups/list"].response()
    server.will(page, {"groups": page["groups"]})
    await caller(lambda c: c.admin.groups.list().with_progress(lambda *counts: told.append(counts)).to_frame())
    assert told == [(1, None), (2, 2)]


PIECES = [0, READ_SIZE, 2 * READ_SIZE, len(BIG)]
# Half of it is more than the kernel keeps for a sender and a receiver on one machine.
HUGE = 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("file", "attempts", "told"),
    [(BIG, 1, PIECES), (BIG, 2, PIECES * 2), (b"", 1, [0, 0])],
    ids=["once", "again", "empty"],
)
async def test_each_piece_is_told(caller, server: Server, file: bytes, attempts: int, told: list[int]) -> None:
    calls: list[tuple[int, int | None]] = []
    server.will(*[refuse(503)] * (attempts - 1), UPLOADED)
    await caller(_upload(io.BytesIO(file), on_progress=lambda *now: calls.append(now)))
    assert calls == [(sent, len(file)) for sent in told]
    assert len(caller.naps) == attempts - 1


async def test_a_pipe_has_no_total(caller, server: Server) -> None:
    calls: list[tuple[int, int | None]] = []
    server.will(UPLOADED)
    await caller(_upload(Pipe(BIG), file_name="stream.bin", on_progress=lambda *now: calls.append(now)))
    assert {total for _, total in calls} == {None}
    assert calls[-1][0] == len(BIG)


@contextmanager
def _stalling(*, after: int) -> Iterator[tuple[str, threading.Event, threading.Event]]:
    stalled, go_on = threading.Event(), threading.Event()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                taken = 0
                while taken < after:
                    taken += len(connection.recv(65536))
                stalled.set()
                go_on.wait(60)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", stalled, go_on
        finally:
            go_on.set()
            thread.join(10)


async def test_no_more_is_told_than_the_socket_took(make_caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece counts when the socket has taken all of it, not when read from disk."""
    monkeypatch.setattr(_uploads, "READ_SIZE", HUGE // 2)
    told: list[tuple[int, int | None]] = []
    with _stalling(after=1_000_000) as (address, stalled, go_on):
        caller = make_caller(base_url=address, max_retries=0)

        async def look() -> list[int]:
            assert await asyncio.to_thread(stalled.wait, 30)
            await asyncio.sleep(0.3)
            sent = [sent for sent, _ in told]
            go_on.set()
            return sent

        looking = asyncio.create_task(look())
        upload = _upload(bytes(HUGE), on_progress=lambda *now: told.append(now))
        with pytest.raises(APIConnectionError):
            await (caller(upload) if caller.is_async else asyncio.to_thread(upload, caller.client))
        assert await looking == [0]
    assert told == [(0, HUGE)]


async def test_what_it_raises_ends_the_upload(caller, server: Server) -> None:
    def stop(sent: int, total: int | None) -> None:
        del total
        if sent:
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        await caller(_upload(BIG, on_progress=stop))
    server.will(UPLOADED)
    await caller(_upload(b"hello"))
    assert len(server.received) == 1
