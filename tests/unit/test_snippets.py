"""The passage that is shown of a result."""

from hypothesis import given
from hypothesis import strategies as st

from service.domains.search.snippets import SNIPPET_LENGTH, merge_texts, snippet_of
from service.index.terms import term_of

ENGLISH = "english"


def terms(*words: str) -> set[int]:
    """The terms of words."""
    return {term_of(word, ENGLISH) for word in words}


def test_matches_are_where_the_words_stand():
    """Offsets count characters of the snippet, and inflected words match."""
    passage = snippet_of("Ünder the ferries 🚢 a dog ran.", terms("ferry", "dog", "run"), stemmings=[ENGLISH])
    assert [passage.text[start:end] for start, end in passage.matches] == ["ferries", "dog"]


def test_the_passage_with_most_of_the_words_is_shown():
    """A stretch with two different words of the query beats one with the same word three times."""
    text = "ferry ferry ferry " + "filler " * 200 + "the ferry and the dog " + "filler " * 200
    passage = snippet_of(text, terms("ferry", "dog"), stemmings=[ENGLISH])
    assert "the ferry and the dog" in passage.text
    assert len(passage.matches) == 2


def test_without_a_match_the_beginning_is_shown():
    """A passage found by meaning alone is shown from its start, cut after a sentence."""
    text = "One sentence follows another. " * 40
    passage = snippet_of(text, terms("ferry"), stemmings=[ENGLISH])
    assert text.startswith(passage.text)
    assert passage.text.endswith("follows another.")
    assert passage.matches == ()


def test_whole_sentences_are_shown_where_there_are_some():
    """It begins and ends with a sentence around what matched; a decimal point ends none."""
    text = (
        "It costs 3.50 a day, whoever asks. " * 20 + "The ferry costs 7.25 a crossing. " + "And 9.99 for a car. " * 30
    )
    passage = snippet_of(text, terms("ferry"), stemmings=[ENGLISH])
    assert passage.text.startswith("It costs")
    assert passage.text.endswith("for a car.")


def test_a_match_late_in_a_long_sentence_is_shown_with_its_beginning():
    """Nothing begins in the middle of a sentence that fits whole."""
    text = (
        "Short ones come first. " * 20 + f"Anything {'very ' * 30}long ends with the ferry. " + "And on it goes. " * 30
    )
    passage = snippet_of(text, terms("ferry"), stemmings=[ENGLISH])
    assert passage.text.startswith(("Short ones", "Anything"))
    assert "with the ferry." in passage.text
    opening = snippet_of(text.removeprefix("Short ones come first. " * 20), terms("ferry"), stemmings=[ENGLISH])
    assert opening.text.startswith("Anything")


def test_without_sentences_it_is_cut_between_words():
    """A list or a table is cut at spaces, around what matched."""
    text = "pump valve hose " * 60 + "ferry " + "pump valve hose " * 60
    passage = snippet_of(text, terms("ferry"), stemmings=[ENGLISH])
    assert set(passage.text.split()) == {"pump", "valve", "hose", "ferry"}


@given(st.lists(st.sampled_from(["ferry", "dog", "filler", "ein", "😀", "\n", "x" * 400, "né"]), max_size=300))
def test_a_snippet_is_a_part_of_the_text_with_its_matches(words):
    """Whatever the text: a bounded, contiguous part of it, matches in order, apart, and each a word of the query."""
    text = " ".join(words)
    wanted = terms("ferry", "dog")
    passage = snippet_of(text, wanted, stemmings=[ENGLISH])
    assert passage.text in text
    assert len(passage.text) <= SNIPPET_LENGTH
    ends = 0
    for start, end in passage.matches:
        assert start >= ends
        assert term_of(passage.text[start:end], ENGLISH) in wanted
        ends = end
    if wanted & {term_of(word, ENGLISH) for word in words}:
        assert passage.matches


def test_merged_chunks_read_in_order_and_show_gaps():
    """Neighbouring chunks are paragraphs; where some are missing between two, that is shown."""
    assert merge_texts({4: "four", 2: "two", 3: "three", 9: "nine"}) == "two\n\nthree\n\nfour\n\n…\n\nnine"
