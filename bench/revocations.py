"""Revoke, then read: whether anything of a document can be read after its reader's access was revoked.

A pair replaces a document, which is then half indexed for a while: found by words, and not yet by meaning. It grants a
reader the document, looks for it by words, revokes the grant and, once that is acknowledged, reads in every way: a
search by words, by meaning and by both, and the document itself. A result after the revocation is a leak.
Goal: 0 leaks. Run: `nice -n 19 python -m bench.revocations [--pairs 3000]`.
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from bench.report import report
from bench.running import run_client, words
from carrel import Carrel
from carrel.errors import NotFoundError
from carrel.wire.catalog import IndexingStatus
from carrel.wire.search import SearchMode

READER = "reader@bench.example"
DOCUMENTS = 40


def upload(client: Carrel, number: int, turn: int) -> Any:
    """Upload a document, or its next version, with a word of its own."""
    text = f"# mark{number}x\n\nmark{number}x {words(1500, seed=number * 100_003 + turn)}\n"
    return client.catalog.upload_file(
        text.encode(), file_name="bench.md", document_external_id=f"bench:{number}", await_vector_store_sync=False
    )


def set_reader(client: Carrel, document_id: str, readers: list[str]) -> None:
    """Make these the document's readers beside the owner."""
    grants = [{"principal": {"type": "user", "email": one}, "role": "VIEWER"} for one in readers]
    resource = {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"}
    client.admin.grants.set(resource=resource, grants=grants)


def find(client: Carrel, number: int, document_id: str, modes: Iterable[SearchMode] = SearchMode) -> list[str]:
    """Return the ways in which the reader finds the document."""
    found = list[str]()
    for mode in modes:
        answer = client.search.search_document_catalog(f"mark{number}x", mode=mode, user_email=READER)
        if any(str(one.document_id) == document_id for one in answer.results):
            found.append(mode)
    with suppress(NotFoundError):
        client.catalog.get_document(document_id, user_email=READER)
        found.append("document")
    return found


def waits_for_meaning(client: Carrel, document_id: str) -> bool:
    """Return whether the document's vectors are still missing."""
    places = client.catalog.get_document(document_id).indexed_in
    return any(one.words_indexed and one.status is not IndexingStatus.DONE for one in places)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3000)
    pairs, half, before, after = parser.parse_args().pairs, 0, Counter[str](), Counter[str]()
    with run_client("revocations") as (client, _):
        client.admin.users.upsert([{"email": READER}])
        ids = [str(upload(client, number, 0).document_id) for number in range(DOCUMENTS)]
        for pair in range(pairs):
            number = pair % DOCUMENTS
            upload(client, number, pair + 1)
            set_reader(client, ids[number], [READER])
            before.update(find(client, number, ids[number], [SearchMode.LEXICAL]))
            half += waits_for_meaning(client, ids[number])
            set_reader(client, ids[number], [])
            after.update(find(client, number, ids[number]))
            if pair % 100 == 99:
                print(f"{pair + 1} pairs, {half} half indexed, {after.total()} leaks", flush=True)
    rows = [{"way": way, "found before": before[way], "leaks": after[way]} for way in sorted(before | after)]
    report("revocations", [{"way": "pairs", "found before": pairs, "leaks": after.total()}, *rows], keep=False)


if __name__ == "__main__":
    main()
