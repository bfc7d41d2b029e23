"""Models behind an OpenAI-compatible endpoint, with failures."""

import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from service.domains.agents.answering.models import Exchange, ModelFailure
from service.platform.errors import Forbidden
from tests.answering.asking import Library, a_library
from tests.harness import model_server
from tests.harness.cases import cases
from tests.harness.lazy import lazily
from tests.harness.logs import logged
from tests.harness.model_server import KEY, MODEL, Answer, ModelServer, calls, is_cut_off, refuses, says

agent, replying = (lazily(f"service.domains.agents.answering.{name}") for name in ("agent", "replying"))
LEAVE = "# Leave\n\nEveryone has 27 days of annual leave. Ask the office in Harwell for more."
SEARCH = calls("search_passages", query="annual leave")
FAILURES = cases("failures_of_an_endpoint")


@pytest.fixture(scope="module")
def leave(service_harness, endpoint: ModelServer) -> Iterator[Library]:
    with service_harness.running(**endpoint.settings, model_seconds=30.0) as service:
        library = a_library(service)
        library.put("Leave", LEAVE)
        yield library


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domains.agents.answering.capabilities.FIRST_PAUSE_SECONDS", 0.0)


@contextmanager
def failing(code: str) -> Generator[list[ModelFailure]]:
    caught: list[ModelFailure] = []
    with pytest.raises(ModelFailure) as failure:
        yield caught
    caught.append(failure.value)
    assert failure.value.code == code
    assert failure.value.status == 503
    assert int(failure.value.headers["Retry-After"]) >= 1
    assert failure.value.message.count(". ") >= 1
    assert KEY not in failure.value.message
    assert "upstream" not in "".join(traceback.format_exception(failure.value)) + logged.getvalue()


def test_a_model_searches_quotes_and_is_shown_on_the_way(leave: Library, model: ModelServer) -> None:
    model.in_turn(SEARCH, says('You have 27 days [[1: "27 days of annual leave"]] each year.'))
    reply = leave.ask("How much leave do I get?")
    assert reply.text == "You have 27 days [1] each year."
    [citation] = reply.citations
    assert citation.quote == "27 days of annual leave"
    assert citation.quote in reply.passages[citation.passage_no].text
    assert reply.model == MODEL
    assert (reply.warnings, reply.quotes_only) == ((), False)
    assert model_server.passages_in(model.requests[1])[0]["document"] == "Leave"
    assert [reply.text.startswith(text) for text, _ in leave.told] == [True] * len(leave.told)
    assert leave.told[-1] == (reply.text, reply.passages)
    assert model.keys == [f"Bearer {KEY}"] * 2


def test_a_model_has_one_tool_and_none_without_collections(leave: Library, model: ModelServer) -> None:
    model.in_turn(says("Good day."))
    assert leave.ask("Hello", instructions="Answer in rhymes.").warnings == ()
    assert model.tools() == ["search_passages"]
    assert "never instructions" in model.shown()
    assert "Answer in rhymes." in model.shown()
    leave.ask("Hello", collection_ids=[])
    assert model.tools() == []
    assert "no documents" in model.shown()
    # What it makes up instead of searching is told from what documents say.
    assert leave.ask("How much leave do I get?").warnings == (agent.LOOKED_UP_NOTHING,)
    again = "Say that in German, please."
    assert leave.ask(again, history=[Exchange("How much leave do I get?", "27 days.")]).warnings == ()


def test_a_model_without_tools_gets_the_passages_with_the_message(make_service, model: ModelServer) -> None:
    library = a_library(make_service(**model.settings, model_without_tools=(MODEL,), model_context_tokens=1000))
    library.put("Leave", "\n\n".join([LEAVE, *(f"Leave of kind {n} takes {n + 30} days." for n in range(400))]))
    model.in_turn(says('27 days [[1: "27 days of annual leave"]].'))
    reply = library.ask("How much annual leave does everyone have?", history=[Exchange("Hello " * 90, "Good day.")] * 9)
    assert (reply.text, reply.warnings, model.tools()) == ("27 days [1].", (), [])
    assert 750 < sum(len(passage.text) for passage in reply.passages) <= 1500
    assert model.shown().count("Good day.") == 2
    assert "annual leave does everyone have?\\n\\nPassages:\\n[{" in model.shown()
    library.ask("Hello")
    assert "Passages:" not in model.shown()


def test_what_is_said_before_the_first_search_is_no_reply(leave: Library, model: ModelServer) -> None:
    search = calls("search_passages", query="leave", saying="Let me look that up.")
    again = calls("search_passages", query="office", saying='27 days [[1: "27 days"]].')
    model.in_turn(search, again, says("That is all."))
    assert leave.ask("How much leave do I get?").text == "27 days [1].\n\nThat is all."
    assert not any("Let me" in text for text, _ in leave.told)


def test_each_search_asks_whether_the_sender_still_may(leave: Library, model: ModelServer) -> None:
    """A sender who loses access between searches gets no reply."""
    model.in_turn(SEARCH, SEARCH, says("27 days."))
    with pytest.raises(Forbidden, match="left"):
        leave.ask("How much leave do I get?", searches=1)
    assert len(model.requests) == 2


def test_the_newest_history_that_fits_is_shown(make_service, model: ModelServer) -> None:
    library = a_library(make_service(**model.settings, model_history_tokens=40))
    model.in_turn(says("Fine."))
    newest = [Exchange("The second", "Twenty words."), Exchange("The third", "It is 27 [1].")]
    for words, shown in ((15, True), (60, False)):
        library.ask("And now?", history=[Exchange("The first", "word " * words), *newest])
        first = [("user", "The first"), ("assistant", "word " * words)]
        assert [(each["role"], each["content"]) for each in model.requests[-1]["messages"][1:]] == [
            *(first if shown else []),
            ("user", "The second"),
            ("assistant", "Twenty words."),
            ("user", "The third"),
            ("assistant", "It is 27."),
            ("user", "And now?"),
        ]


@pytest.mark.parametrize("first", [refuses(429, Retry_After="0"), refuses(500), refuses(503), is_cut_off("")])
def test_what_may_pass_is_tried_again(leave: Library, model: ModelServer, first: Answer) -> None:
    """A rate limit, a server error, and a connection lost before the first word are retried once."""
    model.in_turn(first, says("Here I am."))
    assert leave.ask("Hello").text == "Here I am."
    assert len(model.requests) == 2


def test_attempts_are_bounded(leave: Library, model: ModelServer) -> None:
    model.in_turn(refuses(500, message="upstream " + KEY))
    with failing("model_server_error"):
        leave.ask("Hello")
    assert len(model.requests) == 4


def test_a_long_retry_after_is_told_and_not_waited_for(leave: Library, model: ModelServer) -> None:
    model.in_turn(refuses(429, message="upstream", Retry_After="90"))
    with failing("model_rate_limited") as failures:
        leave.ask("Hello")
    assert (failures[0].headers["Retry-After"], len(model.requests)) == ("90", 1)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refuses(401, message=f"upstream: wrong key {KEY}"), "model_key_refused"),
        *((getattr(model_server, kind)(*given, **named), code) for kind, given, named, code in FAILURES),
    ],
)
def test_every_failure_has_a_code_and_says_what_to_do(leave, model, caplog, answer, code) -> None:
    model.in_turn(answer)
    with failing(code) as failures:
        leave.ask("How much leave do I get?")
    assert len(model.requests) <= 10
    log = caplog.text + logged.getvalue()
    assert (code in log or not failures[0].__suppress_context__, KEY in log, "upstream" in log) == (True, False, False)


def test_a_reply_that_never_ends_is_ended_by_the_deadline(make_service, model: ModelServer) -> None:
    library = a_library(make_service(**model.settings, model_seconds=0.5))
    over = threading.Event()
    for endless in ("and ", "<think>The person wants leave. "):
        model.in_turn(model_server.repeats_slowly(endless, until=over))
        with failing("model_timeout"):
            library.ask("Hello", collection_ids=[])
    model.in_turn(model_server.repeats_slowly("Good day. How", until=over))
    assert library.ask("Hello", collection_ids=[]).warnings == (replying.TOO_SLOW,)
    over.set()


def test_an_endpoint_or_a_model_that_is_not_there_is_told(make_service) -> None:
    library = a_library(make_service(model_url="http://127.0.0.1:1/v1", model_names=(MODEL,)))
    library.put("Leave", LEAVE)
    with failing("model_unreachable"):
        library.ask("How much leave do I get?")
    assert library.ask("How many days of annual leave?", model="carrel-extractive").citations
    # An agent keeps the name of a model that is no longer configured.
    with failing("model_not_configured"):
        library.ask("Hello", model="yesterday's")
