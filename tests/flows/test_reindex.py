"""The flow for indexing a collection again, run by Prefect: stale documents, all, or with another model."""

import pytest

from flows.errors import NameUnknownError, SourceBusyError, SourceError
from flows.operations.options import ReindexOptions
from flows.operations.reindexing import rebuild_index, reindex_documents
from flows.reindex import reindex
from flows.runs import Runs
from tests.flows.serving import state_of
from tests.harness.documents import chunks, create_collection, ok, upload, uploaded
from tests.harness.embeddings import MODEL, EmbeddingsEndpoint
from tests.service.rebuilds import LOCAL, TEXTS, Shelf, a_shelf, let_time_pass

pytestmark = pytest.mark.own_service(sweep_seconds=0.2)


@pytest.fixture
def shelf(service, embeddings: EmbeddingsEndpoint) -> Shelf:
    del embeddings
    return a_shelf(service, *TEXTS)


def change(shelf: Shelf, name: str, text: str) -> str:
    answer = ok(upload(shelf.service, name, text, file_name=f"{name}.txt", reindexCollections="false"))
    return str(answer["documentId"])


async def test_what_is_stale_is_indexed_again(shelf: Shelf, flow_settings) -> None:
    changed = change(shelf, "lamp", "The lamp is dark now.")
    assert chunks(shelf.service, changed, shelf.collection_id) == [TEXTS["lamp"]]
    first = await reindex_documents("Shelf", options=ReindexOptions(), settings=flow_settings)
    assert (first.documents, first.wanted, first.reindexed, first.failed) == (3, 1, 1, 0)
    assert chunks(shelf.service, changed, shelf.collection_id) == ["The lamp is dark now."]
    again = await reindex_documents("Shelf", options=ReindexOptions(), settings=flow_settings)
    assert (again.documents, again.wanted, again.reindexed) == (3, 0, 0)
    everything = await reindex_documents("Shelf", options=ReindexOptions(everything=True), settings=flow_settings)
    assert (everything.reindexed, everything.chunks, everything.embedded) == (3, 3, 0)


async def test_chunks_that_callers_made_are_theirs_to_send_again(shelf: Shelf, flow_settings) -> None:
    shelf.add_chunks(uploaded(shelf.service, "log", "A log.", file_name="log.txt")["documentId"], "the first anchor")
    left = await reindex_documents("Shelf", options=ReindexOptions(everything=True), settings=flow_settings)
    assert (left.reindexed, left.failed, left.as_json()["leftToCallers"]) == (3, 0, 1)
    change(shelf, "log", "Another log.")
    stale = await reindex_documents("Shelf", options=ReindexOptions(), settings=flow_settings)
    assert (stale.wanted, stale.failed) == (1, 1)
    assert [(row["document"], row["code"]) for row in stale.failures] == [("log", "caller_chunks")]
    assert stale.has_problems


async def test_what_takes_long_is_waited_for(make_service, flow_settings, embeddings) -> None:
    del embeddings
    service = make_service(sweep_seconds=0.2, inline_indexing_seconds=0)
    settings = flow_settings.model_copy(update={"base_url": service.base_url})
    shelf = Shelf(service, create_collection(service, "S"))
    place = {"collectionId": str(shelf.collection_id), "awaitVectorStoreSync": "true"}
    document_id = ok(upload(service, "lamp", TEXTS["lamp"], **place))["documentId"]
    ok(upload(service, "lamp", "The lamp is dark now.", reindexCollections="false", awaitVectorStoreSync="true"))
    done = await reindex_documents("S", options=ReindexOptions(), settings=settings)
    assert (done.reindexed, done.running, done.failed) == (1, 0, 0)
    assert chunks(service, document_id, shelf.collection_id) == ["The lamp is dark now."]


async def test_a_flow_makes_an_index_anew_and_tells_of_it(prefect_api, shelf, flow_settings, embeddings) -> None:
    del flow_settings
    clean = await state_of(reindex, "Shelf", ReindexOptions(model=MODEL))
    assert (clean.type.value, clean.name) == ("COMPLETED", "Completed")
    assert shelf.model() == MODEL
    assert (await state_of(reindex, "Shelf", ReindexOptions(model=MODEL))).name == "Completed"
    ok(shelf.call("start", embeddingsModel=LOCAL))
    while shelf.model() != LOCAL:
        pass
    let_time_pass(shelf.service)
    shelf.take_all_steps()  # until the index before is emptied, its vectors are known still
    embeddings.refuse("lamp")
    started = shelf.start(MODEL)
    for _ in range(5):
        let_time_pass(shelf.service)
        shelf.take_all_steps()
    held = await state_of(reindex, "Shelf", ReindexOptions(model=MODEL, wait_for_end=False))
    assert (await held.aresult())["indexRebuildId"] == started["indexRebuildId"]
    shelf.take_all_steps()
    forced = await state_of(reindex, "Shelf", ReindexOptions(model=MODEL, force=True))
    assert forced.name == "CompletedWithProblems"
    result = await forced.aresult()
    assert (result["status"], result["leftCount"]) == ("COMPLETED", 1)
    with Runs(prefect_api) as runs:
        status = runs.run_status(forced.state_details.flow_run_id)
    assert (status.phase, status.progress) == ("done", 100.0)
    assert MODEL in status.plan


async def test_what_can_not_be_begun_says_why(shelf, flow_settings, embeddings) -> None:
    for name, model, error in (("Nowhere", MODEL, NameUnknownError), ("Shelf", "unheard-of", SourceError)):
        with pytest.raises(error):
            await rebuild_index(name, options=ReindexOptions(model=model), settings=flow_settings)
    with pytest.raises(ValueError, match="use only one"):
        ReindexOptions(model=MODEL, everything=True)
    with pytest.raises(ValueError, match="needs a model"):
        ReindexOptions(force=True)
    embeddings.hold()
    shelf.start(MODEL)
    with pytest.raises(SourceBusyError, match=MODEL):
        await rebuild_index("Shelf", options=ReindexOptions(model=LOCAL), settings=flow_settings)
    embeddings.behave()
