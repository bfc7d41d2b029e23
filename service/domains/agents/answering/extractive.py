"""The built-in model. Quotes and cites relevant sentences; needs neither key nor network."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import PurePath

from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from carrel.wire.agents import BUILT_IN_MODEL
from service.domains.agents.answering.phrases import Phrases, answer_small_talk, drop_greeting, phrases_of
from service.domains.agents.answering.scoring import MOST_GATHERED, Place, choose_quotes, is_alike, is_within
from service.domains.agents.answering.segments import Quotable, segments_of
from service.domains.search.understanding.extraction import MOST_QUESTIONS, extract_questions
from service.domains.search.understanding.following import complete_question, find_new_words
from service.text.embedding import MINILM, Embedders
from service.text.sentences import cut_sentences

LONGEST_NAME = 120
_ITEM, _MARKUP = re.compile(r"\A(?:[-*•]|\d{1,3}[.)]) +"), re.compile(r"[*`\[\]<>]|(?<!\w)_|_(?!\w)")
_BRACKETS = str.maketrans("[]<>", "()()")
# A comparison is a whole message with a noun phrase on each side.
_NOUN = r"(?!(?:and|or|but|with|to|und|oder|mit|that|which|when|if|they|them|we|us|i|me|you)\b)[\w'\u2019/&-]++"
_NOUNS = rf"({_NOUN}(?: {_NOUN}){{0,7}})"
_COMPARES = re.compile(
    r"\s*(?:(?:please |bitte )?(?:compare|vergleiche?)|(?:(?:what(?: is| are|['\u2019]s)|was ist|worin besteht) )?"
    r"(?:the |der )?(?:diff?e?r[ea]n[cs]es? between|unterschied zwischen)) "
    rf"{_NOUNS} (?:and|with|to|und|mit) {_NOUNS}[\s?.!]*",
    re.IGNORECASE,
)
# "When do I claim, and how?" and "How do I buy a book or a licence?" ask two questions each.
_AND_HOW = re.compile(
    r"(\w+ (?:\w+ )?)((?:is|are|do|does|did|can|could|may|must|should|will) .+?),? and (how|when|where|why|who)[ ?]*",
    re.IGNORECASE,
)
_A_NOUN = r"((?:an?|the|my|our) [\w-]+)"
_EITHER = re.compile(rf"((?:how|where|when|who) .+? ){_A_NOUN} or {_A_NOUN}[ ?]*", re.IGNORECASE)
MOST_OF_A_PART, MOST_QUOTABLE = 2, 160
"""Quotes for each part of a question; segments compared with the question, from the best passages first."""


def extractive_model(embedders: Embedders) -> FunctionModel:
    """Return the model; the local embedding model measures how near text is to a question."""
    return FunctionModel(stream_function=partial(_write, embedders), model_name=BUILT_IN_MODEL)


async def _write(
    embedders: Embedders, messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """Search once, if possible, then reply. Small talk is answered without a search."""
    prompts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    written = [each.content for each in prompts if isinstance(each.content, str)]
    if written and (reply := answer_small_talk(written[-1])):
        yield reply
        return
    *before, newest = [drop_greeting(message) for message in written] or [""]
    parts = cut_question(newest, follows=bool(before))
    questions = [(complete_question([*before, part]), new) for part, new in parts.items()]
    returns = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not returns and info.function_tools:
        name = info.function_tools[0].name
        yield {
            place: DeltaToolCall(name, json.dumps({"query": each}), tool_call_id=f"search-{place}")
            for place, (each, _) in enumerate(questions)
        }
        return
    results = [json.loads(str(part.content)) for part in returns]
    found = {passage["n"]: passage for passages in results for passage in passages}
    places: list[list[Place]] = [part.metadata or [] for part in returns]
    phrases = await asyncio.to_thread(phrases_of, newest)
    compares = _COMPARES.fullmatch(newest) is not None
    quotable = await asyncio.to_thread(_list_quotable, found, places)
    most = 1 if compares else MOST_GATHERED if len(questions) == 1 else MOST_OF_A_PART
    chosen = await choose_quotes(embedders.get(MINILM), questions, quotable, most=most, found=places)
    # Another section of a page that answers one part of the question may answer a part that no sentence answers.
    pages = {sentence.document for some, fit in chosen if fit == "answers" for sentence in some}
    beside = [[one for one in some if fit == "far" and one.document in pages and not compares] for some, fit in chosen]
    chosen = [(near, "close") if near else entry for near, entry in zip(beside, chosen, strict=True)]
    answers, close, far = (
        list({(item.number, item.quote): item for some, each in chosen if each == fit for item in some}.values())
        for fit in ("answers", "close", "far")
    )
    longer = ((answer, [other for other in answers if len(answer.quote) < len(other.quote)]) for answer in answers)
    quotes = [entry for entry, others in longer if not any(is_alike(entry, other) for other in others)]
    marked = {sentence.text for some, fit in chosen if fit == "answers" for sentence in some}
    told = [_write_quotes(quotes, phrases, marked)] if quotes else []
    if close := [sentence for sentence in close if not any(is_alike(sentence, other) for other in quotes)]:
        told += [phrases.closest_passage, _write_quotes(close, phrases)]
    if told:
        asked = zip(parts.items(), chosen, strict=True)
        missing = [" ".join(new) or part for (part, new), (_, fits) in asked if fits == "far"]
        yield "\n\n".join([*told, *(phrases.nothing_about.format(_line(part)) for part in missing)])
    elif far:
        yield f"{phrases.closest}\n\n{_write_quotes(far, phrases)}"
    else:
        new = ", ".join(filter(None, map(" ".join, parts.values())))
        yield phrases.nothing_about.format(_line(new)) if new else phrases.nothing_answers


def _list_quotable(found: Mapping[int, Mapping[str, str]], places: Sequence[Sequence[Place]]) -> list[Quotable]:
    """Cut passages, by number, into at most MOST_QUOTABLE segments: of what was found, then of the neighbours."""
    cut = (segments_of(each["text"], document=each["document"], number=number) for number, each in found.items())
    every, known = list(chain.from_iterable(cut)), list(chain.from_iterable(places))
    best = sorted(range(len(every)), key=lambda item: (not is_within(every[item], known), every[item].number))
    return [every[item] for item in sorted(best[:MOST_QUOTABLE])]


def cut_question(message: str, *, follows: bool) -> dict[str, list[str]]:
    """Split a message into questions, or two things to compare. With `follows`, each comes with its new words."""
    if compared := _COMPARES.fullmatch(message):
        return {compared[1]: [], compared[2]: []}
    if both := _AND_HOW.fullmatch(message):
        return {f"{both[1]}{both[2]}?": [], f"{both[3].capitalize()} {both[2]}?": []}
    if either := _EITHER.fullmatch(message):
        return {f"{either[1]}{either[2]}?": [], f"{either[1]}{either[3]}?": []}
    short = {each.text: find_new_words(each.text) for each in cut_sentences(message)} if follows else {}
    if 1 < len(short) <= MOST_QUESTIONS and all(short.values()):
        return short
    return {part: find_new_words(part) if follows else [] for part in extract_questions(message)}


def _write_quotes(quotes: Sequence[Quotable], phrases: Phrases, marked: Collection[str] = ()) -> str:
    """Write the quotes by document and section, as words can change meaning under another heading. The sentences to be
    `marked` are in bold."""
    told: list[str] = []
    for place, group in groupby(quotes, key=partial(_describe_source, phrases=phrases)):
        told.append(place)
        for sentence in group:
            text = "\n".join(f"> {line}" for line in _mark(sentence.quote, marked).splitlines())
            more = [phrases.more_items.format(sentence.left_out)] if sentence.left_out else []
            told += [f'{text} [[{sentence.number}: "{sentence.quote}"]]', *more]
    return "\n\n".join(told)


def _mark(quote: str, marked: Collection[str]) -> str:
    """Return a quote with the marked sentences in bold: the first line of each, unless the quote is nothing else."""
    whole = [text for text in marked if not any(text in other for other in marked if text != other)]
    for text in whole:
        first = _ITEM.sub("", text.partition("\n")[0])
        is_part = text in quote and text != quote and not _MARKUP.search(first)
        quote = quote.replace(first, f"**{first}**", 1) if is_part else quote
    return quote


def _describe_source(quote: Quotable, phrases: Phrases) -> str:
    name, section = _line(quote.document), _line(quote.section)
    titled = section and section.casefold() != PurePath(name).stem.casefold()
    return (phrases.section if titled else phrases.source).format(name, section)


def _line(name: str) -> str:
    """Return a name as a single line, with brackets changed so they form neither citation nor link."""
    return " ".join(name.translate(_BRACKETS).split())[:LONGEST_NAME]
