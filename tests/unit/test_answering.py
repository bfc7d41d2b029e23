"""Parts of an answer without a database or a model, and small talk in the question's language."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from carrel.wire.agents import BUILT_IN_MODEL
from carrel.wire.places import PassagePlace
from service.domains.agents.answering.extractive import cut_question
from service.domains.agents.answering.models import Exchange, Passage
from service.domains.agents.answering.phrases import PHRASES, answer_small_talk, drop_greeting, phrases_of
from service.domains.agents.answering.scoring import LONG_QUOTES, choose_quotes, has_number, has_words, is_alike
from service.domains.agents.answering.sections import complete
from service.domains.agents.answering.segments import LONGEST_LIST, Quotable, segments_of
from service.domains.search.queries import FoundPassage
from service.domains.search.understanding.following import complete_question, find_new_words
from service.platform.settings import Settings
from service.text.embedding import WordPieces
from service.text.embedding.weights import locate
from tests.harness.cases import cases
from tests.harness.lazy import lazily

exceptions = lazily("pydantic_ai.exceptions")
selecting, retrying = (
    lazily("service.domains.agents.answering.replying"),
    lazily("service.domains.agents.answering.capabilities"),
)

NOTHING_NEW = [
    *("But really?", "Why?", "So?", "And how much of it?", "And a 1, a 2, a 3, a 4 and a 5?", "And what is overtime?"),
    *("Or how about crew in their first year?", "And how long does it take?", "weeks of parental leave"),
    *("Und wie lange dauert das?", "And what is the hotel limit on the islands?", "And " + "ferry " * 3000),
]
PASSAGE = """Leave > Annual leave
Everyone has 27.5 days, i.e. five weeks and a half. Who asks? Dr. Ames in room B-12 does.
To enroll you need:
- a letter
- 6 months of service
Carrying over
Passenger: Adult | Single: 12.50"""


@pytest.mark.parametrize(
    ("before", "message", "whole"),
    [
        ([], "And how long does it take?", "And how long does it take?"),
        *((["How do I enroll?"], leaning, f"How do I enroll? {leaning}") for leaning in cases("questions_that_lean")),
        *((["How do I enroll?"], alone, alone) for alone in cases("questions_that_stand_alone")),
        (["How do I enroll?", "And where?"], "Why?", "How do I enroll? And where? Why?"),
        (["1", "and 2", "and 3", "and 4"], "and 5", "and 2 and 3 and 4 and 5"),
    ],
)
def test_a_question_that_leans_on_another_is_asked_with_it(before: list[str], message: str, whole: str) -> None:
    assert complete_question([*before, message]) == whole


@pytest.mark.parametrize(
    ("message", "new"),
    [*cases("a_message_that_goes_on_says_in_which_words"), *((message, []) for message in NOTHING_NEW)],
)
def test_a_message_that_goes_on_says_in_which_words(message: str, new: list[str]) -> None:
    assert find_new_words(message) == new


@pytest.mark.parametrize(("sentence", "words", "language", "has_them"), cases("a_sentence_has_words_in_their_forms"))
def test_a_sentence_has_words_in_their_forms(sentence: str, words: list[str], language: str, has_them: bool) -> None:
    assert has_words(Quotable(1, "Notes", "", sentence), words, language) is has_them


def test_what_can_be_quoted_is_whole() -> None:
    segments = segments_of(PASSAGE)
    enrolling = PASSAGE[PASSAGE.index("To enroll") : PASSAGE.index("\nCarrying")]
    assert [segment.text for segment in segments] == [
        "Everyone has 27.5 days, i.e. five weeks and a half.",
        f"Who asks? Dr. Ames in room B-12 does.\n{enrolling}",
        "Dr. Ames in room B-12 does.",
        enrolling,
        "- 6 months of service",
        "Passenger: Adult | Single: 12.50",
    ]
    assert segments[0].headings == "Leave > Annual leave"
    assert segments[-1].headings == "Leave > Annual leave\nCarrying over"


@pytest.mark.parametrize(("passage", "quotable"), cases("titles_are_no_quotes_and_quotes_are_understood_alone"))
def test_titles_are_no_quotes_and_quotes_are_understood_alone(passage: str, quotable: dict[str, list[str]]) -> None:
    [(document, texts)] = quotable.items()
    assert [segment.text for segment in segments_of(passage, document=document)] == texts


@pytest.mark.parametrize(("one", "other", "is_same"), cases("other_numbers_are_never_the_same"))
def test_other_numbers_are_never_the_same(one: str, other: str, is_same: bool) -> None:
    quotable = [Quotable(1, "", "", text) for text in (one, other)]
    assert is_alike(*quotable) == is_alike(*reversed(quotable)) == is_same


@pytest.mark.parametrize(
    ("sentence", "has_it"), [("It takes two weeks.", True), ("In 2 weeks.", True), ("One asks.", False)]
)
def test_numbers_are_known_in_figures_and_words(sentence: str, has_it: bool) -> None:
    assert has_number(sentence) is has_it


@given(st.text(alphabet="ab1 .:?!\n-|\"']é你。", max_size=200))
def test_what_can_be_quoted_stands_in_the_passage(passage: str) -> None:
    plain = " ".join(passage.split())
    for segment in segments_of(passage):
        for text in (segment.text, segment.quote):
            assert " ".join(text.split()) in plain
            assert 0 < len(text) <= LONGEST_LIST
            assert "]]" not in text


def found(*numbers: int) -> list[tuple[int, int, int]]:
    return [(number, 0, 99) for number in numbers]


def an_embedder(near: Callable[[str], float]) -> Any:
    """Return an embedder that gives each text a vector with a single number."""
    embed = lambda texts: asyncio.sleep(0, np.array([[near(text)] for text in texts], np.float32))  # noqa: E731
    return SimpleNamespace(embed=embed, tokenizer=WordPieces(locate().tokenizer))


async def test_long_quotes_are_few():
    even = an_embedder(lambda _: 1.0)
    for characters, most in ((10, 3), (LONG_QUOTES // 2 + 1, 2)):
        ferries = [Quotable(0, "", "", f"Ferry {each} sails.", whole=each * characters) for each in "xyz"]
        [(chosen, _)] = await choose_quotes(even, [("ferry", ())], ferries)
        assert len(chosen) == most


async def test_an_answer_stands_out_and_comes_from_the_best_passage():
    """A sentence as near as all others is no answer. Of equal sentences, the first passage's is taken."""
    near = {"gulls": 0.61, "terns": 0.61, "Sail?": 1.0}
    embedder = an_embedder(lambda text: near.get(text[-5:], 0.1))
    two = [Quotable(number, "", "", text) for number, text in ((2, "Of gulls"), (1, "Of terns"))]
    asked = [("Sail?", ())]
    assert await choose_quotes(embedder, asked, two, found=[found(1, 2)]) == [(two, "far")]
    others = [Quotable(3, "", "", f"Of other {place}") for place in range(9)]
    [(chosen, fits)] = await choose_quotes(embedder, asked, [*two, *others], most=1, found=[found(1, 2, 3)])
    assert (chosen, fits) == ([two[1]], "answers")


@pytest.mark.parametrize(("nearness", "heading", "first", "fits"), cases("close_sentences"))
async def test_the_clearly_closest_sentence_of_the_first_document_is_close(nearness, heading: str, first, fits) -> None:
    """By its nearness and its lead over other documents, or below a heading that has the question's words."""
    embedder = an_embedder(lambda text: 1.0 if text == "Sails?" else nearness * ("Of it" in text))
    quotable = [
        Quotable(1, "A", heading, "Of it all we have two kinds that rest on the pier."),
        Quotable(3, "B", "", "Rest"),
    ]
    [(_, fit)] = await choose_quotes(embedder, [("Sails?", ())], quotable, found=[found(first, 4 - first)])
    assert fit == fits


async def test_only_misspelled_words_are_corrected() -> None:
    """A word that the embedding model knows stays, although a sentence has a similar word."""
    embedded, sentences = list[str](), [Quotable(1, "", "", "Other breaks come with an allowance.")]
    asked = [("Does my mother get a longer break and an alowance?", ())]
    await choose_quotes(an_embedder(lambda text: embedded.append(text) or 1.0), asked, sentences)
    assert embedded[0] == "Does my mother get a longer break and an allowance?"


def a_section(*texts: str, longest: int = 4000) -> list[Passage]:
    """Complete the second of a document's chunks; each stands on a page of its own."""
    document = UUID(int=1)
    chunks = [FoundPassage(document, no, text, PassagePlace(page=no + 1)) for no, text in enumerate(texts)]
    found = Passage(document, "Ferry", texts[1], 1.0, 1, PassagePlace(page=2))
    near = {(None, document, one.chunk_no): one for one in chunks}
    return complete([found, replace(found, chunk_no=2, text=texts[2])], near, longest=longest)


def test_a_passage_is_completed_with_its_section() -> None:
    """A chunk repeats the headings above, or begins without a heading. Chunks found in one section become one."""
    cut = "Ferry\nBoarding\nTo board:\n1. Queue up.", "Ferry > Boarding\n2. Show a ticket:\n- paper"
    others = "Ferry > Boarding\n3. Sit.", "Ferry\nLanding\nGet up.", "Fares\nA day costs 2."
    [whole] = a_section(*cut, *others)
    lines = "Ferry\nBoarding\nTo board:\n1. Queue up.\n2. Show a ticket:\n- paper\n3. Sit.\nLanding\nGet up."
    assert (whole.text, whole.chunk_no) == (lines, 0)
    assert [whole.find(quote).chunk_no for quote in ("To board", "- paper", "3. Sit.\nLanding", "Get")] == [0, 1, 2, 3]
    assert whole.find("paper\n3. Sit.").place == PassagePlace(page=2)
    assert [len(each.parts) for each in a_section(*cut, *others, longest=60)] == [1, 2]
    texts = [each.text for each in a_section("A day out.", "Fares\nA day costs 2.", "A week costs 9.")]
    assert texts == ["Fares\nA day costs 2.\nA week costs 9."]


def test_a_list_too_long_to_quote_says_how_much_is_left_out() -> None:
    lines = ["Boarding", "To board:", *(f"{number}. Queue{' up' * 90}." for number in range(9)), "Note:"]
    one = segments_of("\n".join(lines))[0]
    assert (one.quote, one.left_out) == ("\n".join(lines[1:9]), 2)


async def test_what_stands_beside_a_passage_found_counts_less():
    """A neighbour that is a little nearer than the found chunk is no answer; clearly nearer, it is."""
    lines = ["Sails of a gull rest on the pier.", "Sails of a tern rest on the quay."]
    beside = segments_of("\n".join(lines), number=1)
    for nearness, best in ((0.61, 0), (0.7, 1)):
        embedder = an_embedder(lambda text, near=nearness: near if "tern" in text else 0.6)
        asked = [("Where do we sail?", ())]
        [(chosen, _)] = await choose_quotes(embedder, asked, beside, most=1, found=[[(1, 0, len(lines[0]))]])
        assert [each.text for each in chosen] == [lines[best]]


def test_a_command_is_no_heading() -> None:
    passage = "Keys\nEnter this:\ngit config --global gpg.format ssh\nThen rest a while."
    assert {each.headings for each in segments_of(passage)} == {"Keys"}


@pytest.mark.parametrize(("message", "parts"), cases("questions_of_several_parts"))
def test_a_question_of_two_parts_is_asked_in_parts(message: str, parts: list[str]) -> None:
    assert [*cut_question(message, follows=False)] == parts


def test_models_are_named_the_default_first() -> None:
    assert Settings(model_url=None, model_names=()).agent_models == (BUILT_IN_MODEL,)
    settings = Settings(model_url="http://127.0.0.1:1/v1", model_names=("large", "small"))
    assert settings.agent_models == ("large", "small", BUILT_IN_MODEL)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9/v1", "ftp://models.example/v1", "https://user:key@models.example", "https:///v1"]
)
def test_an_endpoint_that_is_no_address_is_refused_before_the_start(url: str) -> None:
    """Otherwise the first message would fail. The error doesn't repeat the value, which may contain a key."""
    with pytest.raises(ValidationError, match="must be an http or https address") as refused:
        Settings(model_url=url, model_names=("large",))
    assert url not in str(refused.value)


def http_error(kind: str, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    category = getattr(exceptions, kind)
    return exceptions.ModelHTTPError.for_category(category, status_code=500, model_name="m", headers=named)


def test_a_pause_is_what_the_endpoint_asks_for_or_grows() -> None:
    assert retrying.pause_after(http_error("ModelRateLimitError", Retry_After="3"), attempt=1) == 3
    assert retrying.pause_after(http_error("ModelRateLimitError", Retry_After="21"), attempt=1) is None
    assert retrying.pause_after(exceptions.ModelAPIError("m", "malformed"), attempt=1) is None
    assert retrying.pause_after(ValueError(), attempt=1) is None
    for attempt, longest in ((1, 0.5), (2, 1.0), (3, 2.0), (30, retrying.LONGEST_PAUSE_SECONDS)):
        assert longest / 2 <= retrying.pause_after(http_error("ModelServerError"), attempt=attempt) <= longest


def test_the_newest_history_is_kept() -> None:
    history = [Exchange("one two", "three"), Exchange("four", "five [1]."), Exchange("six", "seven")]

    tokenizer = WordPieces(locate().tokenizer)

    def shown(tokens: int) -> list[str]:
        kept = selecting.select_history(history, tokenizer=tokenizer, most_tokens=tokens)
        return [f"{each.message} {each.reply}" for each in asyncio.run(kept)]

    assert shown(0) == []
    assert shown(2) == ["six seven"]
    assert shown(4) == ["six seven"]
    assert shown(5) == ["four five.", "six seven"]
    assert shown(8) == ["one two three", "four five.", "six seven"]


@pytest.mark.parametrize(("message", "language", "kind"), cases("small_talk"))
def test_small_talk_is_answered_in_its_language(message: str, language: str, kind: str) -> None:
    assert answer_small_talk(message) == getattr(PHRASES[language], kind)


@pytest.mark.parametrize(
    "message",
    [
        *("", " ,", "🦭", "hi" * 9000, "Hello world programs"),
        *("What can you do about a late ferry?", "How are you paid at sea?"),
    ],
)
def test_what_asks_something_is_no_small_talk(message: str) -> None:
    assert answer_small_talk(message) is None
    assert drop_greeting(message) == message


def test_a_greeting_before_a_question_is_dropped() -> None:
    assert drop_greeting("Good morning! How many days, please?") == "How many days, please?"
    assert drop_greeting("Hallo,\nwie viele Tage?") == "wie viele Tage?"


@pytest.mark.parametrize(("question", "language"), cases("languages_of_phrases"))
def test_the_phrases_are_of_the_questions_language(question: str, language: str) -> None:
    assert phrases_of(question) is PHRASES[language]
