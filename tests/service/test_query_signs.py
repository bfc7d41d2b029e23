"""Operators of a query: phrases, exclusion, alternatives and fields, in the three modes and as several people."""

import time
from collections.abc import Iterator

import pytest

from service.domains.search import spelling, sql
from tests.harness.cases import cases
from tests.harness.documents import add_users, ok, uploaded
from tests.harness.services import RunningService

NAMES = ("ann", "ben", "carol", "dora", "eve", "fay", "gus", "hal", "ida")
ANN, BEN, CAROL, DORA, EVE, FAY, GUS, HAL, IDA = (f"{name}@signs.test" for name in NAMES)
MODES = ("HYBRID", "LEXICAL", "SEMANTIC")
TEXTS = cases("texts_for_signs")
BY_BEN = {"secret": ("Ben's travel diary", "Travel to the hotel in net 30 minutes.")}


@pytest.fixture(scope="module")
def texts(module_service: RunningService) -> RunningService:
    add_users(module_service, ANN, BEN)
    for owner, texts in ((ANN, TEXTS), (BEN, BY_BEN)):
        for external_id, (name, text) in texts.items():
            path = f"policies/{external_id}" if external_id in {"hotel", "train"} else external_id
            uploaded(module_service, path, text, as_user=owner, file_name=f"{external_id}.md", documentName=name)
    return module_service


@pytest.fixture(scope="module", params=[2000, 0], ids=["little", "much"])
def library(request: pytest.FixtureRequest, texts: RunningService) -> Iterator[RunningService]:
    statements = (sql.dense_leg, sql.lexical_leg, sql.candidates, sql.chunks_containing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "FEW_PAGES", request.param)
        for function in (sql._reads_little, *statements):
            function.cache_clear()
        yield texts
    for function in (sql._reads_little, *statements):
        function.cache_clear()


def search(service: RunningService, query: str, *, as_user: str = ANN, **options) -> dict:
    body = {"searchQuery": query, "searchOptions": options, "userEmail": as_user}
    return ok(service.call("search/searchDocumentCatalog", body))


def found(service: RunningService, query: str, **options) -> set[str]:
    results = search(service, query, **options)["results"]
    return {result["documentExternalId"].rpartition("/")[2] for result in results}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("query", "expected"), cases("a_sign_chooses_documents"))
def test_a_sign_chooses_documents(library: RunningService, mode: str, query: str, expected: list[str]) -> None:
    results = found(library, query, mode=mode)
    if mode == "LEXICAL":  # a document without any word of the query isn't found
        assert results <= set(expected)
        assert bool(results) == bool(expected)
    else:
        assert results == set(expected)


def test_a_phrase_is_shown_where_it_stands(library: RunningService) -> None:
    [result] = search(library, '"net 30 days"')["results"]
    assert "net 30 days" in result["snippet"]["text"]


def test_signs_come_back(library: RunningService) -> None:
    applied = search(library, 'travel "by train" -hotel a OR b title:trains note:x')["applied"]["syntax"]
    assert [(sign["kind"], sign["written"]) for sign in applied["signs"]] == [
        ("PHRASE", '"by train"'),
        ("EXCLUDED", "-hotel"),
        ("ALTERNATIVES", "a OR b"),
        ("FIELD", "title:trains"),
    ]
    [other] = applied["notUnderstood"]
    assert "note:" in other
    assert "syntax" not in search(library, "C++ at -5 degrees, by e-mail")["applied"]
    assert "syntax" not in search(library, '"net 30 days"', literalQuery=True)["applied"]


def test_a_field_that_fits_no_readable_document_is_named(library: RunningService) -> None:
    def notes(query: str, **options) -> list[str | None]:
        return [sign.get("note") for sign in search(library, query, **options)["applied"]["syntax"]["signs"]]

    told = "No document that you can read has this."
    assert notes("days type:xyz owner:me") == [told, None]
    assert notes("in:policies", as_user=BEN) == [told]
    assert notes("travel type:md before:2001 -owner:ben") == [None, told, None]
    assert notes("travel in:policies") == [None]
    values = search(library, "type:md owner:me")["results"]
    assert not any("missing" in each["matched"] for each in values)


def test_a_phrase_of_common_words_is_compared_with_all_that_is_readable(library: RunningService) -> None:
    applied = search(library, 'travel "to be or not to be"')["applied"]["syntax"]
    assert [sign.get("note") for sign in applied["signs"]] == [None]


def test_only_the_readers_own_documents_are_chosen(library: RunningService) -> None:
    assert found(library, '"net 30 minutes"') == set()
    assert found(library, '"net 30 minutes"', as_user=BEN) == {"secret"}
    assert found(library, "travel in:policies", as_user=BEN) == set()


@pytest.mark.parametrize("mode", MODES)
def test_words_that_nothing_contains_are_told(library: RunningService, mode: str) -> None:
    answer = search(library, "FMLA travel", mode=mode)
    assert answer["applied"]["unmatchedWords"] == ["FMLA"]
    assert "corrections" not in answer["applied"] or answer["applied"]["corrections"] == []
    assert search(library, "travel by hotels", mode=mode)["applied"].get("unmatchedWords", []) == []
    # A word of another person's document is as unmatched as any.
    assert search(library, "diary", mode=mode)["applied"]["unmatchedWords"] == ["diary"]
    assert search(library, "diary", mode=mode, as_user=BEN)["applied"].get("unmatchedWords", []) == []


@pytest.mark.parametrize(("typed", "corrected"), cases("a_misspelt_word_is_corrected"))
def test_a_misspelt_word_is_corrected_from_what_the_reader_may_read(library, typed, corrected) -> None:
    answer = search(library, f"When? ({typed}), please!", mode="LEXICAL")
    assert answer["applied"]["corrections"] == [{"word": typed, "replacedBy": [corrected]}]
    assert answer["results"][0]["matched"] == {"words": [corrected], "meaning": False}
    assert search(library, typed, literalQuery=True)["applied"].get("corrections", []) == []
    assert search(library, f'"{typed}"')["applied"].get("corrections", []) == []  # a phrase is meant as it is
    assert search(library, "diery")["applied"].get("corrections", []) == []
    assert search(library, "diery", as_user=BEN)["applied"]["corrections"][0]["replacedBy"] == ["diary"]


@pytest.mark.timeout(60)
def test_many_asterisks_cost_little(module_service: RunningService) -> None:
    add_users(module_service, HAL)
    uploaded(module_service, "run", "xxxxxxxxxxxxxxxxxxxxxy " + "x" * 64, as_user=HAL, file_name="run.md")
    assert search(module_service, "x*" * 20 + "y", as_user=HAL, mode="LEXICAL")["results"] != []
    began = time.process_time()
    assert spelling.find_wildcards("a" * 8000) == []
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize("mode", MODES)
def test_words_without_their_space_are_told_apart(library: RunningService, mode: str) -> None:
    answer = search(library, "paymentterms", mode=mode)
    assert answer["applied"]["corrections"] == [{"word": "paymentterms", "replacedBy": ["payment terms"]}]
    assert answer["results"][0]["documentName"] == "Payment terms"
    assert search(library, "traveldiary", mode=mode)["applied"].get("corrections", []) == []


def test_a_correction_is_looked_for_in_several_texts_with_its_stem(module_service: RunningService) -> None:
    add_users(module_service, GUS)
    text = "## Yard\n\n" + "The management of goods is here. " * 60 + "\n\n## Gate\n\nAsk a manager of the gate."
    uploaded(module_service, "yards", text, as_user=GUS, file_name="a.md", documentName="Yards")
    uploaded(module_service, "hangers", "A hanger.", as_user=GUS, file_name="b.md", documentName="Coats")
    answer = search(module_service, "manger", as_user=GUS, mode="LEXICAL")
    assert answer["applied"]["corrections"] == [{"word": "manger", "replacedBy": ["manager", "hanger"]}]
    # Either word will do, and neither is missing.
    assert [each["matched"]["words"] for each in answer["results"]] == [["manager"], ["hanger"]]
    assert not any("missing" in each["matched"] for each in answer["results"])


@pytest.mark.parametrize("mode", MODES)
def test_a_query_without_words_has_an_answer(library: RunningService, mode: str) -> None:
    assert found(library, "🎉 ?!", mode=mode) == (set() if mode == "LEXICAL" else set(TEXTS))


def test_a_document_that_is_called_by_the_query_comes_first(module_service: RunningService) -> None:
    add_users(module_service, FAY)
    for name, text in cases("documents_that_name_an_invoice"):
        uploaded(module_service, name, text, as_user=FAY, file_name="a.md", documentName=name)
    called = {"RE-88213": "Invoice RE-88213", "invoice re88213": "Invoice RE-88213", "rope": "Lines"}
    for query, first in (called | {"5GB": "Mailboxes", "CO alarm": "CO alarm"}).items():
        found = search(module_service, query, as_user=FAY, mode="LEXICAL")["results"]
        assert found[0]["documentName"] == first, query


def test_a_code_that_only_parts_match_comes_first(module_service: RunningService) -> None:
    texts = {
        "norms": "To ISO/IEC 27099.",
        "hall": "The hall is open to all. " * 20,
        "tour": "A tour for visitors starts here.",
    }
    add_users(module_service, IDA)
    for name, text in texts.items():
        uploaded(module_service, f"codes/{name}", text, as_user=IDA)
    result = search(module_service, "iso27099", as_user=IDA)
    assert (result["results"][0]["documentExternalId"], result["applied"]["unmatchedWords"]) == (
        "codes/norms",
        ["iso27099"],
    )


def test_relevance_follows_the_ranking(library: RunningService) -> None:
    for mode in MODES:
        relevance = [result["relevance"] for result in search(library, "payment by train", mode=mode)["results"]]
        assert relevance == sorted(relevance, reverse=True)
        assert all(0 <= each <= 1 for each in relevance)
    [best, *_] = search(library, "supplier invoices")["results"]
    assert best["matched"] == {"words": ["supplier", "invoices"], "meaning": True}
    whole, *parts = search(library, "travel by hotel", mode="LEXICAL")["results"]
    assert (whole["documentName"], whole["nameMatches"]) == ("Travel rules", [{"start": 0, "end": 6}])
    assert {tuple(part["matched"]["missing"]) for part in parts} == {("hotel",)}
    assert all(part["relevance"] <= 0.25 < whole["relevance"] for part in parts)


def test_all_names_of_a_document_are_searched_and_told(module_service: RunningService) -> None:
    add_users(module_service, HAL)
    text = f"# Gearbox grease\n\n{'It is kept dry. ' * 80}\n\n## Interval\n\nThe interval is two months."
    for external_id, name in (("named", {"documentName": "Lubricants"}), ("LubricantsOfCranes.md", {})):
        uploaded(module_service, external_id, text, as_user=HAL, file_name="LubricantsOfCranes.md", **name)
    found = search(module_service, "gearbox interval", as_user=HAL, mode="LEXICAL")["results"]
    assert [each["matched"]["words"] for each in found] == [["gearbox", "interval"]] * 2
    [best, *_] = search(module_service, "cranes interval", as_user=HAL, mode="LEXICAL")["results"]
    assert (best["documentName"], best["matched"]["words"]) == ("Gearbox grease", ["cranes", "interval"])


def test_similar_documents_are_one_result(module_service: RunningService) -> None:
    add_users(module_service, CAROL)
    text = "The siren is tested on the first Monday of each month at noon; meet at the flagpole and wait for the count."
    for number in range(4):
        uploaded(module_service, f"siren-{number}", text + " Be quick!" * number, as_user=CAROL, file_name="a.md")
    for external_id, other in (("hall", ("Monday", "Tuesday")), ("yard", ("first", "third"))):
        uploaded(module_service, external_id, text.replace(*other), as_user=CAROL, file_name="a.md")
    uploaded(module_service, "flag", "The flagpole stands in front of the gate of the yard.", as_user=CAROL)
    [first, *others] = search(module_service, "siren at the flagpole", as_user=CAROL, groupSimilar=True)["results"]
    assert len(first["similar"]) == 3
    assert {each["documentExternalId"] for each in others} == {"hall", "yard", "flag"}
    assert len(search(module_service, "siren at the flagpole", as_user=CAROL)["results"]) == 7


def test_results_are_counted_and_ordered_by_time(library: RunningService) -> None:
    answer = search(library, "travel payment", countFacets=True)
    facets = {facet["field"]: {each["label"]: each["count"] for each in facet["values"]} for facet in answer["facets"]}
    assert facets["type"] == {"Markdown": answer["facetsCounted"]}
    assert facets["in"] == {}
    assert sum(facets["owner"].values()) == sum(facets["year"].values()) == answer["facetsCounted"] == len(TEXTS)
    times = [result["updatedAt"] for result in search(library, "travel payment", order="OLDEST")["results"]]
    assert times == sorted(times)
    newest = search(library, "travel payment", order="NEWEST")["results"]
    assert [result["updatedAt"] for result in newest] == times[::-1]
    assert "facets" not in search(library, "travel payment")


def test_documents_like_another_are_found(library: RunningService) -> None:
    [hotel] = [each for each in search(library, "hotel")["results"] if each["documentName"] == "Travel rules"]
    like = search(library, "Travel rules", similarTo=hotel["documentId"])["results"]
    assert like[0]["documentName"] == "Trains"
    assert hotel["documentId"] not in {each["documentId"] for each in like}
    body = {"searchQuery": "x", "searchOptions": {"similarTo": hotel["documentId"]}, "userEmail": BEN}
    assert library.call("search/searchDocumentCatalog", body).json()["error"]["code"] == "document_not_found"


def test_a_document_shows_several_passages(module_service: RunningService) -> None:
    add_users(module_service, DORA)
    sections = (
        f"## Part {number}\n\nThe lift number {number} is repaired. " + "It carries goods. " * 60 for number in range(6)
    )
    uploaded(module_service, "lifts", "\n\n".join(sections), as_user=DORA, file_name="a.md")
    [result] = search(module_service, "lift number 4 repaired", as_user=DORA, passagesPerDocument=3)["results"]
    assert len(result["furtherPassages"]) == 2
    places = [result["snippet"]["chunkIndex"], *(each["chunkIndex"] for each in result["furtherPassages"])]
    assert len(set(places)) == 3


@pytest.mark.parametrize("mode", MODES)
def test_signs_choose_the_chunks_of_a_collection(module_service: RunningService, mode: str) -> None:
    add_users(module_service, EVE)
    parts = (
        f"## Part {number}\n\nSerial {number} of the pump. " + "It is oiled each week. " * 50 for number in range(9)
    )
    uploaded(module_service, "pumps", "\n\n".join(parts), as_user=EVE, file_name="a.md", documentName="Pumps")
    body = {"collectionName": f"Pumps {mode}", "userEmail": EVE}
    collection = ok(module_service.call("documentCollections/createDocumentCollection", body))["documentCollectionId"]
    document = search(module_service, "pump", as_user=EVE)["results"][0]["documentId"]
    named = {"documentCollectionId": collection, "documentId": document, "customMetadata": {}, "userEmail": EVE}
    ok(module_service.call("documentCollections/addDocumentToCollection", named))
    asked = {"documentCollectionId": collection, "searchOptions": {"mode": mode, "maxChunks": 50}, "userEmail": EVE}

    def texts(query: str) -> list[str]:
        answer = ok(module_service.call("search/searchDocumentCollection", asked | {"searchQuery": query}))
        return [chunk["text"] for result in answer["results"] for chunk in result["chunks"]]

    assert ["Serial 7 of" in text for text in texts('pump "serial 7 of"')] == [True]
    assert texts('pump -"serial 7 of"') == []
    assert len(texts('"pumps" oiled')) == len(texts("pump oiled"))
