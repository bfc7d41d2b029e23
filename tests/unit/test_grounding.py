"""The share of a reply supported by its cited passages, by the rules of `answering.grounding`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.evaluation import find_unsaid
from service.domains.agents.answering import grounding
from tests.harness.cases import cases

PASSAGES = {
    1: "Leave\nEveryone has 27 days of annual leave, and takes them by March.",
    2: "The canteen is closed on Fridays.",
}


@pytest.mark.parametrize(("reply", "share"), cases("a_sentence_is_supported_by_what_it_cites"))
def test_a_sentence_is_supported_by_what_it_cites(reply: str, share: float | None) -> None:
    assert grounding.measure_groundedness(reply, PASSAGES) == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(("said", "stands", "lacking"), cases("a_number_is_held_against_its_passage"))
def test_a_number_is_held_against_its_passage(said: str, stands: str, lacking: list[str]) -> None:
    assert grounding.find_unsupported(f"It is {said} [1].", {1: f"There it is {stands}."}) == (
        {1: lacking} if lacking else {}
    )


@pytest.mark.parametrize(("said", "stands", "is_opposed"), cases("a_sentence_says_the_opposite"))
def test_a_sentence_says_the_opposite_of_its_passage(said: str, stands: str, is_opposed: bool) -> None:
    assert bool(grounding.find_contradicted(f"It is {said} [1].", {1: f"There it is {stands}."})) is is_opposed


@pytest.mark.parametrize(("reply", "needs"), cases("a_refusal_needs_no_source"))
def test_a_refusal_needs_no_source(reply: str, needs: bool) -> None:
    assert grounding.needs_source(reply) is needs


@given(st.text(alphabet="abc 12.?\n[]>-#é你。", max_size=200), st.text(alphabet="abc 12.\né你。", max_size=100))
def test_groundedness_is_a_share(reply: str, passage: str) -> None:
    measured = grounding.measure_groundedness(reply, {1: passage})
    assert measured is None or 0 <= measured <= 1
    assert grounding.measure_groundedness(passage, {1: passage}) in (None, 1)
    assert grounding.measure_groundedness(reply, {}) is None


@pytest.mark.parametrize("text", [".", " ", "\n", "[1", "> ", "1", ".[1", "a "])
def test_hostile_replies_take_no_time_that_grows_with_their_square(text: str) -> None:
    """Ten times the longest reply, within a few seconds of processor time."""
    reply, began = f"a{text * (400_000 // len(text))}b", time.process_time()
    find_unsaid(reply, ["noon"])
    grounding.measure_groundedness(reply, {1: "noon"})
    assert time.process_time() - began < 5
