"""The questions of messages, by rules (`service.domains.search.understanding.extraction`)."""

import pytest

from service.domains.search.understanding.extraction import MOST_QUESTIONS, extract_questions

MAIL = """Hello Anna,

we were at the port on Monday and my colleague left her umbrella on board. Where do I find an umbrella that was left on
board? And who pays for the postage?

Thanks in advance!

Best regards,
Ben

On Tue, 3 March 2026 at 10:12, Anna wrote:
> Could you tell me what the meeting was about?
> Anna
"""

FIRST = "How many days of holiday do I get?"
CONVERSATION = """Ann: How many days of holiday do I get?
Bot: You get 28 days a year.
Ann: And who approves them?
Bot: Let me look."""


@pytest.mark.parametrize(
    ("message", "questions"),
    [
        (
            MAIL,
            [
                "Where do I find an umbrella that was left on board?",
                "Where do I find an umbrella that was left on board? And who pays for the postage?",
            ],
        ),
        (CONVERSATION, ["How many days of holiday do I get? And who approves them?"]),
        ("Hi! What is the hotel limit on the islands?", ["What is the hotel limit on the islands?"]),
        (
            "How many sheep can we take on the ferry and where do I buy a ticket for the dog?",
            ["How many sheep can we take on the ferry", "where do I buy a ticket for the dog?"],
        ),
        (
            "How many days of holiday do I get? And what is the hotel limit on the islands? Thanks",
            ["How many days of holiday do I get?", "And what is the hotel limit on the islands?"],
        ),
        *(
            (f"{FIRST} {more}", [FIRST, f"{FIRST} {more}"])
            for more in ("And how much of it may I carry over to next year?", "And for part-time crew members?")
        ),
        ("how do terms and conditions apply to dogs and cats", ["how do terms and conditions apply to dogs and cats"]),
        ("refund", ["refund"]),
        (
            "The error 4711 appears on the printer after the update. How can I fix the printer?",
            ["The error 4711 appears on the printer after the update. How can I fix the printer?"],
        ),
        ("We sail on the Kittiwake. It rains. Is there tea?", ["We sail on the Kittiwake. Is there tea?"]),
        ("Note: the fee is 20.\nQuestion: why is it so high?", ["Note: the fee is 20. Question: why is it so high?"]),
        ("Q: What is the fee?\nA: 20 EUR. And why so much?", ["Q: What is the fee?", "A: 20 EUR. And why so much?"]),
        ("Fibre shows inductive properties.", ["Fibre shows inductive properties."]),
        ("Wo ist der Schirm und wann fährt die Fähre?", ["Wo ist der Schirm und wann fährt die Fähre?"]),
        ("Hello!", ["Hello!"]),
        ("> quoted only", ["> quoted only"]),
    ],
)
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
