"""The displayed passage of a result."""

from hypothesis import given
from hypothesis import strategies as st

from service.domains.search.snippets import SNIPPET_LENGTH, Passage, merge_texts, snippet_of
from service.index.terms import term_of

ENGLISH = "english"


def terms(*words: str) -> set[int]:
    return {term_of(word, ENGLISH) for word in words}


def shown(text: str, *words: str) -> Passage:
    return snippet_of(text, terms(*words), stemmings=[ENGLISH])


def test_matches_are_where_the_words_stand():
    passage = shown("Ünder the ferries 🚢 a dog ran.", "ferry", "dog", "run")
    assert [passage.text[start:end] for start, end in passage.matches] == ["ferries", "dog"]


def test_the_passage_with_most_of_the_words_is_shown():
    text = "ferry ferry ferry " + "filler " * 200 + "the ferry and the dog " + "filler " * 200
    passage = shown(text, "ferry", "dog")
    assert "the ferry and the dog" in passage.text
    assert len(passage.matches) == 2


def test_without_a_match_the_beginning_is_shown():
    text = "One sentence follows another. " * 40
    passage = shown(text, "ferry")
    assert text.startswith(passage.text)
    assert passage.text.endswith("follows another.")
    assert passage.matches == ()


def test_whole_sentences_are_shown_where_there_are_some():
    around = "It costs 3.50 a day, whoever asks. " * 20, "And 9.99 for a car. " * 30
    passage = shown("The ferry costs 7.25 a crossing. ".join(around), "ferry")
    assert passage.text.startswith("It costs")
    assert passage.text.endswith("for a car.")
    before, after = "Short ones come first. " * 20, "And on it goes. " * 30
    long = f"Anything {'very ' * 30}long ends with the ferry. "
    passage = shown(before + long + after, "ferry")
    assert passage.text.startswith(("Short ones", "Anything"))
    assert "with the ferry." in passage.text
    assert shown(long + after, "ferry").text.startswith("Anything")


def test_without_sentences_it_is_cut_between_words():
    text = "pump valve hose " * 60 + "ferry " + "pump valve hose " * 60
    assert set(shown(text, "ferry").text.split()) == {"pump", "valve", "hose", "ferry"}


@given(st.lists(st.sampled_from(["ferry", "dog", "filler", "ein", "😀", "\n", "x" * 400, "né"]), max_size=300))
def test_a_snippet_is_a_part_of_the_text_with_its_matches(words):
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
    assert merge_texts({4: "four", 2: "two", 3: "three", 9: "nine"}) == "two\n\nthree\n\nfour\n\n…\n\nnine"
