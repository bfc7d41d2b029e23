"""`carrel reindex`, against the real service and a second embedding model behind a real endpoint."""

import pytest

from tests.harness.documents import ok, upload
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.service.rebuilds import TEXTS, Shelf, a_shelf, let_time_pass

pytestmark = pytest.mark.own_service(sweep_seconds=0.2)


@pytest.fixture
def shelf(service, embeddings: EmbeddingsEndpoint) -> Shelf:
    del embeddings
    shelf = a_shelf(service, *TEXTS)
    ok(upload(service, "lamp", "The lamp is dark now.", file_name="lamp.txt", reindexCollections="false"))
    return shelf


def test_what_is_stale_is_indexed_again(run, shelf: Shelf) -> None:
    first = run("reindex", "Shelf")
    assert (first.code, "1 re-indexed" in first.out) == (0, True), first
    again = run("reindex", str(shelf.collection_id), "--json").json
    assert (again["exitCode"], again["outcome"], again["documents"], again["wanted"]) == (0, "completed", 3, 0)
    assert run("reindex", "Shelf", "--all", "--json").json["reindexed"] == 3


def test_an_index_is_made_anew(run, shelf: Shelf) -> None:
    made = run("reindex", "Shelf", "--model", MODEL)
    assert (made.code, f"to {MODEL}" in made.out) == (0, True), made
    assert shelf.model() == MODEL
    assert run("reindex", "Shelf", "--model", MODEL, "--json").json["status"] == "COMPLETED"
    assert run("reindex", "catalog:", "--model", MODEL).code == 0
    assert Shelf(shelf.service, None).model() == MODEL


def test_what_fails_holds_it_back_until_it_is_left_out(run, shelf: Shelf, embeddings: EmbeddingsEndpoint) -> None:
    embeddings.refuse("crew")
    assert run("reindex", "Shelf", "--model", MODEL, "--no-wait").code == 0
    for _ in range(6):
        shelf.take_all_steps()
        let_time_pass(shelf.service)
    cancelled = run("reindex", "Shelf", "--cancel")
    assert (cancelled.code, "cancelled" in cancelled.out) == (0, True), cancelled
    assert run("reindex", "Shelf", "--cancel").code == 2
    forced = run("reindex", "Shelf", "--model", MODEL, "--force", "--json").json
    assert (forced["exitCode"], forced["outcome"], forced["leftCount"]) == (1, "problems", 1)


def test_what_is_wrong_is_said(run, shelf: Shelf) -> None:
    del shelf
    for arguments, code, words in (
        (("Nowhere",), 2, "no collection"),
        (("Shelf", "--model", "unheard-of"), 2, "There is no such embeddings model"),
        (("Shelf", "--all", "--model", MODEL), 2, "use only one"),
        (("catalog:",), 2, "--model"),
    ):
        ended = run("reindex", *arguments)
        assert (ended.code, words in ended.err) == (code, True), ended
