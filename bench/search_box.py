"""Whether the search box does what people expect: questions of twenty kinds over small files, in three modes.

The questions, with what a reasonable person expects of each, are in tests/data/search-box/questions.toml. A question is
right if all of its expectations hold. The service runs on its own; the questions go through the SDK. Goal: 95 % by
KEYWORDS and HYBRID. With `--languages` it measures another thing: how often the right text is first, in each language.

Run: `python -m bench.search_box [--modes KEYWORDS,HYBRID,VECTOR] [--kinds dates,typos] [--languages]`. `--name` is the
name of the result in bench/results; nothing is kept where only some modes or kinds are asked.
"""

import argparse
import json
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from pptx import Presentation

from bench.report import report
from bench.running import run_client
from carrel import Carrel
from carrel.wire.search import SearchDocumentCatalogResponse, SearchMode
from tests.made_files import bytes_of, pdf, word, workbook

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "search-box"
MODES = {"KEYWORDS": SearchMode.LEXICAL, "HYBRID": SearchMode.HYBRID, "VECTOR": SearchMode.SEMANTIC}
HOST = "brightmoor.example"
READER = "reader"
PEOPLE = {
    name: name.replace(".", " ").title() for name in ("olga.nowak", "ben.carter", "wei.lin", "sofia.ortega", READER)
}
LOOKED_AT, SHOWN, TOP = 50, 10, 3
AT_ONCE = 4

Question = Mapping[str, Any]


def file_of(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document, in the format that its name says."""
    text = document["text"]
    lines = text.splitlines()
    match Path(document["file"]).suffix:
        case ".pdf":
            return pdf([(line, 12) for line in lines])
        case ".docx":
            return word(paragraphs=[("Normal", line) for line in lines if line])
        case ".pptx":
            return _slides(text)
        case ".xlsx":
            return workbook(Sheet=[line.split("|") for line in lines])
        case ".eml":
            return _mail(document)
        case _:
            return text.encode()


def _slides(text: str) -> bytes:
    presentation = Presentation()
    for number, slide in enumerate(text.split("\n---\n")):
        title, _, body = slide.partition("\n")
        made: Any = presentation.slides.add_slide(presentation.slide_layouts[min(number, 1)])
        made.shapes.title.text, made.placeholders[1].text = title, body
    return bytes_of(presentation)


def _mail(document: Mapping[str, Any]) -> bytes:
    message = EmailMessage()
    message["From"] = f"{document['sender']}@{HOST}"
    message["To"] = f"everybody@{HOST}"
    message["Subject"] = document["subject"]
    message["Date"] = f"{int(document['changed'][-2:])} Sep 2025 09:00:00 +0000"
    message.set_content(document["text"])
    return message.as_bytes()


def load(client: Carrel, folder: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Write the documents as files and upload them, each for its owner, into its collection."""
    client.admin.users.upsert([{"email": f"{name}@{HOST}", "name": shown} for name, shown in PEOPLE.items()])
    collections: dict[str, str] = {}
    for name in sorted({each["collection"] for each in documents if "collection" in each}):
        made = client.document_collections.create_document_collection(name)
        collections[name] = str(made.document_collection_id)
        resource = {"resource_id": collections[name], "resource_type": "DOCUMENT_COLLECTION"}
        client.admin.grants.set(resource=resource, grants=[], organization_wide=True)

    def upload(document: Mapping[str, Any]) -> None:
        path = folder / document["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file_of(document))
        readers = [f"{name}@{HOST}" for name in document.get("readers", ())]
        uploaded = client.catalog.upload_file(
            path,
            document_external_id=document["file"],
            upload_as_user_email=f"{document['owner']}@{HOST}" if "owner" in document else None,
            source_system_updated=f"{document['changed']}T09:00:00Z" if "changed" in document else None,
            await_vector_store_sync=True,
            allowed_users_email_addresses=readers or None,
            internal_public=None if readers else True,
        )
        if "collection" in document:
            client.document_collections.add_document_to_collection(
                document_id=uploaded.document_id,
                document_collection_id=collections[document["collection"]],
                custom_metadata={},
            )

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(upload, documents))


def ask(client: Carrel, question: Question, mode: SearchMode) -> SearchDocumentCatalogResponse:
    """Search as the person who asks."""
    person = question.get("as", READER)
    return client.search.search_document_catalog(
        question["ask"], max_results=LOOKED_AT, mode=mode, group_similar=True, user_email=f"{person}@{HOST}"
    )


def faults_of(question: Question, answer: SearchDocumentCatalogResponse) -> list[str]:
    """Return each expectation of a question that an answer doesn't meet."""
    results = [each.model_dump(by_alias=True, mode="json") for each in answer.results]
    applied = answer.applied.model_dump(by_alias=True, mode="json", exclude_none=True)
    return [*_places(question, [each["documentExternalId"] for each in results]), *_telling(question, results, applied)]


def _places(question: Question, names: Sequence[str]) -> Iterator[str]:
    """Yield the expectations of which documents are found, and where, that don't hold."""
    first = question.get("first", [])
    if first and not (names and _fits(names[0], first)):
        yield f"first is {names[0] if names else 'nothing'}, not {first}"
    for member, shown in (("top", names[:TOP]), ("found", names[:SHOWN])):
        for name in question.get(member, ()):
            if name not in shown:
                yield f"{name} is number {names.index(name) + 1}" if name in names else f"{name} is not found"
    if found := [name for name in names if _fits(name, question.get("absent", ()))]:
        yield f"found although excluded: {found}"
    if "only" in question and (other := [name for name in names if not _fits(name, question["only"])]):
        yield f"found beside what was asked for: {other[:TOP]}"
    if question.get("none") and names:
        yield f"found although nothing has it: {names[:TOP]}"
    if "rows" in question:
        pattern, most = question["rows"]
        if (rows := sum(fnmatchcase(name, pattern) for name in names[:SHOWN])) > most:
            yield f"{rows} rows of {pattern}"


def _telling(question: Question, results: Sequence[dict[str, Any]], applied: Mapping[str, Any]) -> Iterator[str]:
    """Yield the expectations of what is told about the results that don't hold."""
    best = results[0] if results else {}
    passage = best.get("snippet", {}).get("text", "")
    if fold(question.get("snippet", "")) not in fold(passage):
        yield f"the passage is {passage[:80]!r}"
    if "unmatched" in question:
        told = applied.get("unmatchedWords", ())
        if {*map(fold, told)} != {*map(fold, question["unmatched"])}:
            yield f"unmatchedWords is {told}"
    if "corrected" in question or "secret" in question:
        yield from _corrections(question, applied.get("corrections", ()))
    if "matched" in question:
        told = best.get("matched")
        if not {*map(fold, question["matched"])} <= {*map(fold, _strings(told))}:
            yield f"matched of the first is {told}"
    if question.get("relevance"):
        told = [each.get("relevance") or 0.0 for each in results]
        if not told or told != sorted(told, reverse=True) or not 0 < told[0] <= 1:
            yield f"relevance is {told[:TOP]}"
    counts = [_count(each.get("similar")) for each in results[:SHOWN]]
    if max(counts, default=0) < question.get("more", 0):
        yield f"similar is {counts[:TOP]}"


def _corrections(question: Question, told: Any) -> Iterator[str]:
    """Yield what is wrong in the corrections, which are a mapping of words or a list of objects."""
    each_told: Any = told.items() if hasattr(told, "items") else told
    offered = {word: words for word, *words in ([*map(fold, _strings(each))] for each in each_told)}
    if "corrected" in question:
        expected = {fold(word): fold(right) for word, right in question["corrected"].items()}
        if {*offered} != {*expected} or any(right not in offered[word] for word, right in expected.items()):
            yield f"corrections is {told}"
    if any(fold(word) in words for word in question.get("secret", ()) for words in offered.values()):
        yield f"a word of others is offered: {told}"


def _fits(name: str, patterns: str | Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) for each in ([patterns] if isinstance(patterns, str) else patterns))


def _strings(value: Any) -> list[str]:
    """Return the strings within a value of JSON, in their order."""
    match value:
        case str():
            return [value]
        case dict():
            return _strings([*cast("dict[str, Any]", value).values()])
        case list() | tuple():
            return [each for inner in cast("Sequence[Any]", value) for each in _strings(inner)]
        case _:
            return []


def _count(value: Any) -> int:
    """Return how many equal documents a result stands for: a number, a list, or an object with either."""
    match value:
        case dict():
            return max(map(_count, cast("dict[str, Any]", value).values()), default=0)
        case list():
            return len(cast("list[Any]", value))
        case int():
            return value
        case _:
            return 0


def fold(text: str) -> str:
    """Return a text without case, marks and width, as it is compared here."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(each for each in apart if not unicodedata.combining(each))


def measure(client: Carrel, folder: Path, modes: Sequence[str], kinds: Sequence[str]) -> list[dict[str, object]]:
    """Ask the questions of these kinds; print those that are wrong, and return a row for each kind."""
    load(client, folder, json.loads((FOLDER / "documents.json").read_text()))
    asked: dict[str, list[Question]] = tomllib.loads((FOLDER / "questions.toml").read_text())
    rows: list[dict[str, object]] = []
    right = dict.fromkeys(modes, 0)
    for kind in kinds or asked:
        row: dict[str, object] = {"kind": kind}
        for mode in modes:
            wrong = [
                f"{kind} | {mode} | {each['ask']} | {'; '.join(faults)}"
                for each in asked[kind]
                if (faults := faults_of(each, ask(client, each, MODES[mode])))
            ]
            print(*wrong, sep="\n" if wrong else "", flush=True)
            right[mode] += len(asked[kind]) - len(wrong)
            row[mode] = f"{len(asked[kind]) - len(wrong)}/{len(asked[kind])}"
        rows.append(row)
    number = sum(len(asked[kind]) for kind in kinds or asked)
    rows.append({"kind": "all", **{mode: f"{right[mode]}/{number} ({right[mode] / number:.0%})" for mode in modes}})
    return rows


def measure_languages(client: Carrel, folder: Path, modes: Sequence[str]) -> list[dict[str, object]]:
    """Return how often the text that answers is first, for each language and way of asking; all are in one catalog.

    A question has some of the words of its text, or nearly none: other ones of the same meaning."""
    sets = {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "languages").glob("*.json"))}
    load(client, folder, [_as_document(name, each) for name, language in sets.items() for each in language["texts"]])
    rows: list[dict[str, object]] = []
    for name, language in sets.items():
        for words in ("some", "other"):
            asked = [each for each in language["questions"] if each["words"] == words]
            row: dict[str, object] = {"language": name, "words": words, "questions": len(asked)}
            for mode in modes:
                firsts = [[*ask(client, each, MODES[mode]).results, None][0] for each in asked]
                found = [first.document_external_id if first else "nothing" for first in firsts]
                right = [one == f"{name}/{each['text']}.md" for one, each in zip(found, asked, strict=True)]
                for first, each, is_right in zip(found, asked, right, strict=True):
                    if not is_right:
                        print(f"{name} | {mode} | {each['ask']} | first is {first}, not {each['text']}", flush=True)
                row[mode] = round(sum(right) / len(right), 3)
            rows.append(row)
    return rows


def _as_document(language: str, text: Mapping[str, str]) -> dict[str, str]:
    return {"file": f"{language}/{text['id']}.md", "text": f"# {text['title']}\n\n{text['text']}"}


def main() -> None:
    """Ask, print and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES), help="some of KEYWORDS,HYBRID,VECTOR")
    parser.add_argument("--kinds", default="", help="some kinds of questions, separated by commas")
    parser.add_argument("--languages", action="store_true", help="ask the sets in several languages instead")
    parser.add_argument("--name", help="name of the result that is kept")
    arguments = parser.parse_args()
    modes = arguments.modes.split(",")
    kinds = [each for each in arguments.kinds.split(",") if each]
    with run_client("search-box") as (client, folder):
        rows = (
            measure_languages(client, folder, modes) if arguments.languages else measure(client, folder, modes, kinds)
        )
    whole = {*modes} == {*MODES} and not kinds
    name = arguments.name or ("search-box-languages" if arguments.languages else "search-box")
    report(name, rows, keep=whole)


if __name__ == "__main__":
    main()
