"""Chunks fit the model, hold all text in order, and change little after an edit."""

import hashlib
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.text.chunking import Chunk, caller_chunks, chunk_blocks
from service.text.embedding.models import MAX_PIECES, WordPieces
from service.text.embedding.weights import locate
from service.text.extraction.blocks import Block, BlockKind
from service.text.sentences import cut_sentences
from tests.harness.cases import cases

TOKENIZER = WordPieces(locate().tokenizer)
WORDS = ["the", "crew", "of", "a", "ferry", "checks", "life", "jackets", "first", "and", "reports", "harbour"]

WILD_TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs", "Cc"]),
        st.sampled_from("aaabc   ..!?。\n\t[]()'\"ßΣé한語"),
        st.sampled_from(["[SEP]", "antidisestablishment"]).map(lambda word: word[0]),
    ),
    max_size=300,
)
LONG_TEXT = st.builds(lambda text, times: text * times, WILD_TEXT, st.integers(1, 40))
BLOCKS = st.lists(
    st.one_of(
        st.builds(Block, st.sampled_from(["paragraph", "table_row", "code"]), LONG_TEXT),
        st.builds(lambda text, level: Block("heading", text, level), WILD_TEXT, st.integers(1, 6)),
    ),
    max_size=12,
)


def seeded(number: int) -> Random:
    return Random(number)  # noqa: S311 - nothing secret


def chunks_of(blocks: Sequence[Block], title: str = "A title") -> list[Chunk]:
    return chunk_blocks(blocks, title=title, tokenizer=TOKENIZER)


def paragraph(seed: Random, sentences: int) -> str:
    return " ".join(" ".join(seed.choices(WORDS, k=seed.randint(6, 22))).capitalize() + "." for _ in range(sentences))


def handbook(seed: Random, sections: int = 50) -> list[Block]:
    blocks: list[Block] = []
    for _ in range(sections):
        blocks.append(Block("heading", " ".join(seed.choices(WORDS, k=4)), seed.randint(1, 3)))
        blocks += [Block("paragraph", paragraph(seed, seed.randint(1, 9))) for _ in range(seed.randint(1, 5))]
    return blocks


def flat(seed: Random, paragraphs: int = 550) -> list[Block]:
    return [Block("paragraph", paragraph(seed, seed.randint(1, 3))) for _ in range(paragraphs)]


def chunks_changed(blocks: list[Block], seed: Random) -> int:
    place = seed.choice([number for number, block in enumerate(blocks) if block.kind == "paragraph"])
    text = blocks[place].text
    edited = seed.choice([text + " " + paragraph(seed, 1), paragraph(seed, 2), text[: len(text) // 2] or "x"])
    before = {chunk.hash for chunk in chunks_of(blocks)}
    after = chunks_of([*blocks[:place], Block("paragraph", edited), *blocks[place + 1 :]])
    return sum(chunk.hash not in before for chunk in after)


@given(blocks=BLOCKS, title=WILD_TEXT)
@settings(max_examples=150, deadline=None)
def test_chunks_fit_the_model_and_lose_nothing(blocks: list[Block], title: str):
    """With its title, a chunk has at most 254 word pieces; white space may change."""
    chunks = chunks_of(blocks, title)
    assert all(pieces <= MAX_PIECES for pieces in TOKENIZER.count([chunk.dense_text for chunk in chunks]))
    assert all(len(chunk.text) <= 8000 for chunk in chunks)
    found = iter("".join("".join(chunk.text for chunk in chunks).split()))
    wanted = "".join("".join(block.text for block in blocks).split())
    assert all(character in found for character in wanted)  # `in` moves the iterator on: a subsequence


@given(number=st.integers(0, 1_000_000))
@settings(max_examples=12, deadline=None)
def test_an_edit_moves_few_boundaries(number: int):
    seed = seeded(number)
    assert chunks_changed(handbook(seed), seed) <= 3


def test_an_edit_moves_few_boundaries_without_headings():
    changes = [chunks_changed(flat(seeded(number)), seeded(number)) for number in range(12)]
    assert sum(changes) / len(changes) <= 2
    assert max(changes) <= 5


def test_chunks_are_well_filled():
    pieces = TOKENIZER.count([chunk.dense_text for chunk in chunks_of(flat(seeded(1)))])
    assert sum(pieces) / len(pieces) >= 2 / 3 * MAX_PIECES


def test_quoted_text_is_in_no_chunk():
    blocks = [Block("paragraph", "At nine."), Block("paragraph", "When does it sail?", quoted=True)]
    assert [chunk.text for chunk in chunks_of(blocks)] == ["At nine."]


def test_headings_stay_with_their_text():
    blocks = [
        Block("heading", "Leave", 1),
        Block("heading", "Parents", 2),
        Block("paragraph", "Parents have twelve weeks."),
        Block("heading", "Illness", 2),
        Block("paragraph", paragraph(seeded(2), 24)),
    ]
    first, second, third, *_ = [chunk.text for chunk in chunks_of(blocks)]
    assert first == "Leave\nParents\nParents have twelve weeks."
    assert second.startswith("Leave\nIllness\n")
    assert third.startswith("Leave > Illness\n")


def test_each_scanned_page_begins_a_chunk():
    read: list[tuple[BlockKind, str, int]] = [
        ("paragraph", "Receipt 1, eleven francs", 1),
        ("paragraph", "Receipt 2 over the sum of", 2),
        ("paragraph", "twelve francs.", 3),
        ("paragraph", "and no more", 4),
        ("heading", "Terms", 4),
        ("paragraph", "Paid in cash.", 5),
    ]
    blocks = [Block(kind, text, int(kind == "heading"), page=page, confidence=0.9) for kind, text, page in read]
    assert [chunk.text for chunk in chunks_of(blocks)] == [
        "Receipt 1, eleven francs",
        "Receipt 2 over the sum of\ntwelve francs.",
        "and no more",
        "Terms\nPaid in cash.",
    ]
    assert chunks_of([Block("paragraph", text, page=page) for _, text, page in read])[0].text.endswith("and no more")


def test_each_heading_begins_a_chunk():
    sections = [(f"Berth {number}", f"Ships of line {number}.") for number in range(8)]
    blocks = [block for heading, text in sections for block in (Block("heading", heading, 2), Block("paragraph", text))]
    assert [chunk.text for chunk in chunks_of(blocks)] == [f"{heading}\n{text}" for heading, text in sections]


def test_the_title_is_not_repeated_as_a_heading():
    blocks = [Block("heading", "A Title", 1), Block("paragraph", paragraph(seeded(3), 30))]
    first, second, *_ = chunks_of(blocks, "A title")
    assert first.text.startswith("A Title\n")
    assert "title" not in second.text.lower()
    assert second.dense_text.startswith("A title\n")


def test_table_rows_and_lines_of_code_stay_whole():
    cargo = "rope. Salt in nine barrels, each sealed. Tar for the hull of the ship"
    rows = [f"Ship: {number} | Berth: {number * 7} | Cargo: {'wool ' * (number % 7)}{cargo}" for number in range(60)]
    chunks = chunks_of([Block("table_row", row) for row in rows])
    assert len(chunks) > 3
    assert [row for chunk in chunks for row in chunk.text.split("\n")] == rows
    code = "\n".join(f"def step_{number}(value):\n    return value + {number}" for number in range(50))
    assert "\n".join(chunk.text for chunk in chunks_of([Block("code", code)])) == code


@pytest.mark.parametrize(("text", "sentences"), cases("sentences"))
def test_sentences(text: str, sentences: list[str]):
    assert [span.text for span in cut_sentences(text)] == sentences


def test_the_title_is_cut():
    (chunk,) = chunks_of([Block("paragraph", "Hello.")], " ".join(["ferry"] * 50))
    assert chunk.dense_text == " ".join(["ferry"] * 32) + "\nHello."
    assert chunk.hash == hashlib.sha256(chunk.dense_text.encode()).digest()


def test_callers_chunks_are_kept():
    long = " ".join(["ferry"] * 400)
    short, cut = caller_chunks(["  as is\n", long], title="Title", tokenizer=TOKENIZER)
    assert (short.text, short.dense_text) == ("  as is\n", "Title\n  as is\n")
    assert cut.text == long
    assert TOKENIZER.count([cut.dense_text]) == [MAX_PIECES]


@pytest.mark.parametrize(
    "text", ["x" * 300_000, "word " * 60_000, ".)" * 100_000, "a." + " " * 300_000 + "b", "語" * 60_000]
)
def test_monotonous_text(text: str):
    chunks = chunks_of([Block("paragraph", text)])
    assert max(len(chunk.text) for chunk in chunks) <= 8000
    assert sum(len("".join(chunk.text.split())) for chunk in chunks) == len("".join(text.split()))
