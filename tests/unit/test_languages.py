"""Detecting languages, and terms of words."""

import asyncio
import unicodedata
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.wire.search import SearchMode
from service.domains.agents.answering.scoring import choose_quotes
from service.domains.agents.answering.segments import Quotable
from service.domains.search import snapshot
from service.domains.search.search_query import WORDS, prepare_query
from service.domains.search.snippets import snippet_of
from service.index.stemming import STEMMINGS, stemmer_for, stemming_of
from service.index.terms import (
    TERMS_OF_STEMMINGS,
    count_terms,
    find_stemmings,
    read_query,
    term_of,
    terms_of,
    weigh_query,
)
from service.index.tokenization import split_words
from service.schema.indexing import TOTAL_TERM
from service.text import languages
from service.text.embedding.models import minilm
from service.text.languages import tell_language
from tests.harness.cases import cases

ENGLISH = "english"

SCRIPTS = ("契約書の支払期限ー々税", "계약서해지", "สัญญาค่าเช่า", "ສັນຍາ", "កិច្ចសន្យា")


@pytest.mark.parametrize(("text", "language"), cases("told_languages").items())
def test_languages_are_told(text, language):
    assert tell_language([text]) == language


def test_a_model_that_is_kept_tells_the_same(monkeypatch, tmp_path):
    texts = [text for text, _ in cases("told_languages").items()]
    before = languages._ModelFolder.folder
    monkeypatch.setattr(languages._ModelFolder, "folder", None)
    languages._load_identifier.cache_clear()
    told = [languages._load_identifier().classify(text) for text in texts]
    languages.keep_in(tmp_path)
    (tmp_path / "languages.killed").mkdir()
    for _ in range(2):
        languages._load_identifier.cache_clear()
        assert [languages._load_identifier().classify(text) for text in texts] == told
        monkeypatch.setattr(languages, "_is_saved", lambda *_: pytest.fail("It is written again."))
    monkeypatch.undo()
    (tmp_path / "file").touch()
    languages.keep_in(tmp_path / "file")  # where nothing can be written
    languages._load_identifier.cache_clear()
    assert [languages._load_identifier().classify(text) for text in texts] == told
    languages._ModelFolder.folder = before
    languages._load_identifier.cache_clear()


def test_plain_english_needs_no_model(monkeypatch):
    monkeypatch.setattr(languages, "_load_identifier", lambda: pytest.fail("The model is loaded."))
    assert tell_language(["Kurzes Vorwort."] + ["The ferry leaves the harbour at nine with the dogs."] * 20) == "en"
    assert tell_language([]) is None


def test_stemmings_are_those_there_are():
    assert all(stemmer_for(stemming) for stemming in STEMMINGS if stemming != "simple")
    told = {code: stemming_of(code, default=ENGLISH) for code in (None, "en", "de", "ja", "uk", "sk")}
    assert told == {None: ENGLISH, "en": ENGLISH, "de": "german", "ja": ENGLISH, "uk": ENGLISH, "sk": "simple"}
    assert stemming_of("de", default="simple") == "simple"
    assert not ({stemming_of(code, default=ENGLISH) for code in languages._LANGUAGES.split()} - {ENGLISH, *STEMMINGS})


@pytest.mark.parametrize(("one", "other", "stemming"), cases("forms_of_a_word_are_one_term"))
def test_forms_of_a_word_are_one_term(one, other, stemming):
    assert term_of(one, stemming) == term_of(other, stemming) != 0


def test_words_are_whole_in_every_script():
    assert split_words("हिन्दी भाषा, naïve café") == ["हिन्दी", "भाषा", "naïve", "café"]
    assert split_words("2024年度予算 PDF") == ["2024", "年度", "度予", "予算", "年", "度", "予", "算", "PDF"]
    assert split_words("ｶﾀﾞ") == ["カダ"]


@given(st.sampled_from(SCRIPTS).flatmap(lambda script: st.text(script, min_size=2, max_size=20)), st.data())
def test_a_part_of_a_run_is_found(run, data):
    run = f"ก{run}" if unicodedata.category(run[0]).startswith("M") else run
    start = data.draw(st.integers(0, len(run) - 2).filter(lambda at: not unicodedata.category(run[at]).startswith("M")))
    part = run[start : data.draw(st.integers(start + 2, len(run)))]
    asked = [its for word in read_query(part, (ENGLISH,)).words for its in terms_of(word, [ENGLISH])]
    assert asked
    assert all(count_terms(f"Nr. 7 {run}.", ENGLISH).keys() & {*its} for its in asked)


def test_a_run_is_marked_whole():
    def mark(query: str, text: str) -> list[str]:
        words = read_query(query, (ENGLISH,)).words
        terms = {term for word in words for part in terms_of(word, [ENGLISH]) for term in part}
        passage = snippet_of(text, terms, stemmings=[ENGLISH])
        return [passage.text[start:end] for start, end in passage.matches]

    assert mark("支払期限", "請求書の支払期限は三十日です。期限後は支払えません。") == ["支払期限", "期限", "支払"]
    assert mark("税", "納税者 tax") == ["税"]
    # One character that is folded into two moves nothing that follows.
    assert mark("อาหาร", "ฉันทำงานที่บ้านและทำอาหาร" * 20)[:2] == ["อาหาร", "อาหาร"]


def test_a_word_is_looked_for_by_the_stemmings_of_the_space():
    assert find_stemmings({TOTAL_TERM: 5}, own=ENGLISH) == (ENGLISH,)
    german = {-1 - STEMMINGS.index("german"): 3}
    assert find_stemmings({TOTAL_TERM: 5, **german}, own=ENGLISH) == (ENGLISH, "german")
    assert find_stemmings({TOTAL_TERM: 3, **german}, own=ENGLISH) == ("german",)
    stemmings = (ENGLISH, "german", "french")
    own, english = term_of("Verträge", "german"), term_of("Verträge", ENGLISH)
    frequencies = {own: 6, english: 2, term_of("Harbour", ENGLISH): 8}
    weights = weigh_query(read_query("Verträge Harbour", stemmings), frequencies=frequencies, total=100)
    assert len({weights[term] for term in frequencies}) == 1


@pytest.mark.parametrize(("text", "german", "weighs_as"), cases("words_count_more_in_an_unknown_language"))
def test_words_count_more_in_a_language_that_the_model_does_not_know(text, german, weighs_as):
    model, frequencies = minilm(), {TOTAL_TERM: 10, TERMS_OF_STEMMINGS["german"]: german}
    query = prepare_query(text, mode=SearchMode.HYBRID, language=ENGLISH, embedding=model.mean, model=model)
    query = replace(query, stemmings=find_stemmings(frequencies, own=ENGLISH))
    assert snapshot._weigh_words(query, frequencies) == (model.weights_of_words[weighs_as] if weighs_as else WORDS)


async def test_sentences_answer_in_their_language():
    texts = ("Der Mietvertrag für das Lager gilt zehn Jahre.", "Die Kantine öffnet mittags und bietet viele Gerichte.")
    quotable = [Quotable(number, "Handbuch", "", text) for number, text in enumerate(texts)]
    pieces = SimpleNamespace(count=lambda words: [2] * len(words))  # unknown words
    even = SimpleNamespace(embed=lambda texts: asyncio.sleep(0, np.ones((len(texts), 1), np.float32)), tokenizer=pieces)
    assert await choose_quotes(even, [("Mietverträge?", ())], quotable) == [([quotable[0]], "answers")]
