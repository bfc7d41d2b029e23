"""The built-in model answers small talk, and says its own few words in the language of the question."""

import pytest

from service.domains.agents.answering.phrases import PHRASES, answer_small_talk, drop_greeting, phrases_of
from tests.harness.cases import cases


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
