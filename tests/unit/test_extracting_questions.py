"""The questions of messages, by rules (`service.domains.search.understanding.extraction`)."""

import pytest

from service.domains.search.understanding.extraction import MOST_QUESTIONS, extract_questions
from tests.harness.cases import cases


@pytest.mark.parametrize(("message", "questions"), cases("questions_of_messages"))
def test_questions(message: str, questions: list[str]) -> None:
    assert extract_questions(message) == questions


def test_there_are_never_many_questions() -> None:
    assert len(extract_questions("What is one? Who is two? " * 50)) <= MOST_QUESTIONS
    assert len(extract_questions(" ".join(f"What is thing {number}?" for number in range(100)))) == MOST_QUESTIONS
    assert extract_questions("?! ...") == ["?! ..."]
    # Patterns that begin at each of many empty lines would take seconds, in which the service answers nobody.
    assert extract_questions("\n" * 1_000_000 + "?") == ["\n" * 1_000_000 + "?"]
    # A long sentence that tells a number is left out rather than the question after it.
    long = f"The number is 4711 {'and so on ' * 60}."
    assert extract_questions(f"{long} How can I fix the printer?") == ["How can I fix the printer?"]
