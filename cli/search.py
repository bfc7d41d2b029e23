"""`carrel search`: search the catalog or a collection, within the key owner's rights."""

import re
import shlex
from typing import Annotated

import typer
from rich.text import Text

from carrel import InvalidArgumentError
from carrel.directory.tables import printable
from carrel.wire import search as wire
from carrel.wire.places import describe_place
from cli.choosing import AsJson
from cli.collections import collection_of
from cli.listing import print_json
from cli.outcome import connect
from cli.screen import Screen
from flows.operations.formatting import count_text

_FILTER = re.compile(r"(?P<field>.+?)\s*(?P<operator><=|>=|!=|==|<|>|\bcontains\b)\s*(?P<value>.*)", re.DOTALL)


def search(
    query: Annotated[str, typer.Argument(help="Search query.")],
    *,
    collection: Annotated[str | None, typer.Option(help="Name or id of a collection. Default: the catalog.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most results (in a collection: passages).")] = 10,
    mode: Annotated[wire.SearchMode, typer.Option(case_sensitive=False, help="Keywords, meaning or both.")] = (
        wire.SearchMode.HYBRID
    ),
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Filter, quoted: 'year >= 2024'; <, >, <=, >=, ==, !=, contains."),
    ] = None,
    smart_filters: Annotated[
        bool, typer.Option("--smart-filters", help="Read filters from the query; collections only.")
    ] = False,
    extract_questions: Annotated[
        bool, typer.Option("--extract-questions", help="Search for the questions in a message; collections only.")
    ] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Rerank the best 50 results with a model.")] = False,
    as_typed: Annotated[
        bool, typer.Option("--as-typed", help="Treat signs in the query as text, and keep its spelling.")
    ] = False,
    order: Annotated[
        wire.ResultOrder | None,
        typer.Option(case_sensitive=False, help="Sort by relevance or last change; catalog only."),
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="Show similar documents once; catalog only.")] = False,
    user: Annotated[str | None, typer.Option("--as", metavar="EMAIL", help="Search as this user.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search, and show the hits, best first. No hits is not an error."""
    with connect(as_json=as_json) as (screen, client):
        filters = [_filter(text) for text in where or ()]
        if collection is None:
            if smart_filters or extract_questions:
                msg = "--smart-filters and --extract-questions need --collection"
                raise InvalidArgumentError(msg)
            found = client.search.search_document_catalog(
                query,
                max_results=limit,
                mode=mode,
                metadata_filters=filters,
                enable_reranking=rerank or None,
                literal_query=as_typed or None,
                order=order,
                group_similar=group or None,
                user_email=user,
            )
        elif order or group:
            raise InvalidArgumentError("--order and --group work only without --collection")
        else:
            found = client.search.search_document_collection(
                query,
                document_collection_id=collection_of(collection, client).document_collection_id,
                max_chunks=limit,
                mode=mode,
                structured_query_filters=filters,
                enable_smart_filtering=smart_filters or None,
                enable_query_extraction=extract_questions or None,
                enable_reranking=rerank or None,
                literal_query=as_typed or None,
                user_email=user,
            )
    if as_json:
        print_json(screen, "found", **found.model_dump(mode="json"))
        return
    _show_applied(found.applied, screen=screen, in_collection=collection is not None)
    if not found.results:
        screen.say("No results.")
    for result in found.results:
        _show(result, screen=screen)


def _show_applied(applied: wire.AppliedOptions, *, screen: Screen, in_collection: bool = False) -> None:
    if applied.extraction is not None:
        screen.say(f"Searched for: {' | '.join(applied.extraction.questions)}")
    if applied.filtering is not None and applied.filtering.filters:
        conditions = " ".join(
            f"--where {shlex.quote(f'{each.field} {each.operator} {each.value}')}" for each in applied.filtering.filters
        )
        dropped = "These match nothing, so they are ignored" if applied.filtering.dropped else "From the query"
        screen.say(f"{dropped}: {conditions}")
    notes = [item.note for item in (applied.extraction, applied.filtering) if item and item.note]
    for note in dict.fromkeys(notes + (applied.syntax.notes if applied.syntax else [])):
        screen.say(note)
    if applied.reranking is not None:
        screen.say(applied.reranking.note or f"Reranked the best {applied.reranking.candidate_count} results.")
    if words := applied.missing_words:
        searched = "in the collection" if in_collection else "you can read"
        screen.say(f"No document {searched} contains {' or '.join(words)}.")
    if applied.without_meaning:
        screen.say(f"{count_text(applied.without_meaning, 'document')} can be found only by words so far.")
    for each in applied.corrections or ():
        screen.say(f"Searched for {' or '.join(each.replaced_by)} instead of {each.word}; --as-typed keeps it.")


def _filter(text: str) -> wire.MetadataFilter:
    match = _FILTER.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is invalid: a field, one of {' '.join(wire.FilterOperator)}, and a value")
    return wire.MetadataFilter(
        field=match["field"].strip(), operator=wire.FilterOperator(match["operator"]), value=match["value"]
    )


def _show(result: wire.CatalogSearchResult | wire.CollectionSearchResult, *, screen: Screen) -> None:
    if isinstance(result, wire.CatalogSearchResult):
        best, place = result, result.snippet.place
        lines = [_highlight(result)]
        if names := [each.document_name for each in result.similar]:
            lines.append(Text(printable(f"      and {len(names)} similar: {' | '.join(names)}")))
    else:
        best, place = result.chunks[0], result.chunks[0].place
        places = ["", *(f"{found}: " if (found := describe_place(item.place)) else "" for item in result.chunks[1:])]
        texts = (" ".join(chunk.text.split()) for chunk in result.chunks)
        lines = [Text(printable(f"      {at}{text}")) for at, text in zip(places, texts, strict=True)]
    where = f"  {found}" if (found := describe_place(place)) else ""
    why = f"  {told}" if best.matched and (told := best.matched.describe()) else ""
    relevance = best.score if best.relevance is None else best.relevance
    screen.line(f"{relevance:.2f}  {result.document_name}{where}  ({result.document_external_id}){why}", style="bold")
    for line in lines:
        screen.show(line)


def _highlight(result: wire.CatalogSearchResult) -> Text:
    """Return the passage in one line with the matches in bold; the unchanged length keeps the marks right."""
    plain = "".join(" " if character.isspace() else character for character in result.snippet.text)
    text = Text(f"      {printable(plain)}")
    for match in result.snippet.matches:
        text.stylize("bold yellow", match.start + 6, match.end + 6)
    return text
