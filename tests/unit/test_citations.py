# ruff: noqa: RUF001 - the quotation marks of many languages
"""Any output of a model is checked before display."""

import re
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.domains.agents.answering.citations import CITATION_DROPPED, NUMBER_DROPPED, Checked, check
from service.domains.agents.answering.links import IMAGE_REMOVED, LINK_REMOVED
from service.domains.agents.answering.models import Citation, Passage
from service.domains.agents.answering.streaming import complete_part
from tests.harness.cases import cases

TEXTS = (
    "Everyone has 27 days of annual leave, plus public holidays.",
    "The sign says “mind the gap”; see https://example.test/leave?year=2 or\nask   Ada's team at www.example.test.",
    "a [[1]] b [2] [[3: c]]",
)
PASSAGES = [Passage(UUID(int=number), f"document {number}", text, 0.5) for number, text in enumerate(TEXTS)]

ADDRESSES = {"https://example.test/leave?year=2", "www.example.test"}
ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]+://|www\.)(?:(?!\]\()[^\s<>\"`])+", re.IGNORECASE)
RAW_MARK = re.compile(r"\[\[\s*\d")
SHOWN_NUMBER = re.compile(r"\[\s*(\d{1,3})\s*\]")
PARTS = cases("parts_of_cited_texts")
SOUP = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=3)), max_size=25).map("".join)


REPLY = (
    'You have **27 days** [[1: "27 days of annual leave"]], holidays apart [[1: "plus public holidays"]]. '
    'A sign says so [[2: "mind the gap"]][[2: “mind the gap”]]; see [the page](https://example.test/leave?year=2).\n\n'
    '- 3 < 4 and a[i] stay, [[Page]] and [the list [a]]\n- <sup>[[passage 1: "27 days"]]</sup> so does the end.'
)


def checked(text: str, *, passages: Sequence[Passage] = PASSAGES, known: Sequence[str] = ()) -> Checked:
    return check(text, passages=passages, known=known)


@given(SOUP)
@example('[[[9: "zz"]][1: "27 days"]]')
@example('[[9: "zz"]1]')
@example('[[[1: "27 days"]]: "27 days"]]')
@example("[[[1]1]]")
@example("![a](https://evil.test/?q=1)")
@example("[a][r]\n\n[r]: //evil.test/x")
@example("![a[1]](//evil.test/?q=1)")
@example("<img src=//evil.test/?q=1>")
@example("www.www.evil.test")
@example("https[1]://evil.test")
@settings(max_examples=700)
def test_only_verified_citations_and_known_addresses_are_ever_shown(text: str) -> None:
    found = checked(text)
    for citation in found.citations:
        assert citation.quote in TEXTS[citation.passage_no]
        assert any(map(str.isalnum, citation.quote))
    assert not RAW_MARK.search(found.text)
    numbers = [int(number) for number in SHOWN_NUMBER.findall(found.text)]
    assert list(dict.fromkeys(numbers)) == list(range(1, len(found.citations) + 1))
    assert "\ue000" not in found.text
    assert_leads_nowhere(found.text)


def assert_leads_nowhere(shown: str) -> None:
    """Assert no image, no tag, and only the passages' complete addresses, in text and in links."""
    shown = re.sub(r"\[\d+\]", " ", shown)
    assert {address.rstrip(".,;:!?)]}'*_~|") for address in ADDRESS.findall(shown)} <= ADDRESSES
    assert not re.search(r"!\[", shown)
    assert not re.search(r"<(img|a|script)\b", shown, re.IGNORECASE)
    assert {target for target in re.findall(r"\]\(\s*<?([^\s<>()]*)", shown) if target} <= ADDRESSES


@given(SOUP, st.integers(0, 200))
@settings(max_examples=300)
def test_what_is_shown_on_the_way_is_as_clean_as_the_whole(text: str, length: int) -> None:
    shown = checked(complete_part(text[:length])).text
    assert not RAW_MARK.search(shown)
    assert_leads_nowhere(shown)


def test_a_reply_only_ever_grows_while_it_is_written() -> None:
    before = ""
    for length in range(len(REPLY) + 1):
        shown = checked(complete_part(REPLY[:length])).text
        assert shown.startswith(before), (before, shown)
        before = shown
    whole = checked(REPLY).text
    assert whole.startswith(before)
    assert len(before) > len(whole) - 10
    assert whole == (
        "You have **27 days** [1], holidays apart [2]. A sign says so [3][3]; see [the page](https://example.test/leave"
        "?year=2).\n\n- 3 < 4 and a[i] stay, [[Page]] and [the list [a]]\n- [4] so does the end."
    )


def test_a_citation_is_spelt_as_the_passage_spells_it() -> None:
    found = checked('So [[2: "says \\"mind the gap\\"; see"]] and [passage 2: "or ask Ada’s team"].')
    assert found.text == "So [1] and [2]."
    assert found.citations == [Citation(1, "says “mind the gap”; see"), Citation(1, "or\nask   Ada's team")]
    assert not found.warnings
    code = 'roles = ["admin", "user"] by default'
    found = checked(f'So [[1: "{code}"]].', passages=[replace(PASSAGES[0], text=code)])
    assert (found.text, found.citations[0].quote) == ("So [1].", code)


@pytest.mark.parametrize("mark", cases("citations_that_do_not_hold"))
def test_a_citation_that_does_not_hold_is_dropped(mark: str) -> None:
    assert checked(f"You have 27 days {mark}") == Checked("You have 27 days", [], [CITATION_DROPPED])


def test_bare_numbers_are_dropped_and_other_brackets_stay() -> None:
    found = checked("You have 27 days [1], they say [2, 3][14][^1]【1†a.md】 [doc 3].")
    assert found == Checked("You have 27 days, they say.", [], [NUMBER_DROPPED])
    text = "if [[ -f x ]]; then a[i] = b; fi in [2024] [see below] [[Page]]"
    assert checked(text) == Checked(text, [], [])


@pytest.mark.parametrize(("text", "shown", "removed"), cases("ways_out_are_removed"))
def test_ways_out_are_removed(text: str, shown: str, removed: str) -> None:
    """An address composed by a model can carry data to strangers."""
    known = ["[a](//person.test/) and [b](javascript:alert(1))"]
    assert checked(text, known=known) == Checked(shown, [], [{"image": IMAGE_REMOVED, "link": LINK_REMOVED}[removed]])


def test_what_takes_too_many_rounds_is_taken_apart() -> None:
    text = "[1]"
    for _ in range(10):
        text = f"[ {text}1]"
    shown = checked(f"{text} WWW[.evil.test/27 wwwwww[..evil.test/27").text
    assert "[" not in shown
    assert_leads_nowhere(shown)


def test_links_of_the_passages_and_of_the_person_may_be_repeated() -> None:
    text = (
        "see https://example.test/leave?year=2, [it](https://person.test/a), `www.example.test`, <https://person.test/a>,"
        " [https://person.test/a](https://person.test/a), [w](/wiki/a_(b)), a@person.test or www.example.test."
    )
    known = ['is <a href="https://person.test/a">it</a> or <mailto:a@person.test> right?', "[w](/wiki/a_(b))"]
    assert checked(text, known=known) == Checked(text, [], [])


@pytest.mark.parametrize(("start", "part"), [("", " "), ("<b ", "="), ("[](", " "), ("[1", " ")])
def test_checking_takes_time_in_proportion_to_the_text(start: str, part: str) -> None:
    """Pairwise comparisons would take minutes."""
    assert_leads_nowhere(checked(start + part * 300_000 + "x").text)
