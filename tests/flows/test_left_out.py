"""Files excluded by default: not sent, not deleted, reported, and sent on request."""

import asyncio

import pytest

from flows.operations.jobs import Hooks
from tests.flows.sources import Source, note

LOCK = "shelf-0/package-lock.json"
OTHERS = {LOCK, "site.css", "server.pem"}


@pytest.fixture
def source(source: Source) -> Source:
    source.write(LOCK, '{"name": "ferries", "lockfileVersion": 3}\n')
    source.write("site.css", "body { color: navy }\n")
    source.write("server.pem", "-----BEGIN PRIVATE KEY-----\nbm90IG9uZQ==\n-----END PRIVATE KEY-----\n")
    for name in ("Thumbs.db", "~$plan.docx", "Icon\r", ".DS_Store", "shelf-0/__MACOSX/note.md"):
        source.write(name, "\0")
    return source


async def test_run_leaves_them_out_says_so_and_takes_them_when_asked(source: Source) -> None:
    outcome = await source.load()
    assert (outcome.summary.created, outcome.summary.quarantined) == (12, 0)
    assert set(outcome.scanned.left_out()) == {
        (
            "skipped as left behind by programs: 5 (such as .DS_Store, Icon\r, Thumbs.db, shelf-0/__MACOSX/note.md,"
            " ~$plan.docx); --hidden --include '.ds_store' adds them"
        ),
        f"skipped as lock files: 1 (such as {LOCK}); --include 'package-lock.json' adds them",
        "skipped as stylesheets: 1 (such as site.css); --include '*.css' adds them",
        "skipped as keys and secrets: 1 (such as server.pem); --include '*.pem' adds them",
    }
    assert len(source.documents()) == 12
    added = await source.add_to(source.create_collection())
    assert (added.summary.created, added.summary.quarantined) == (12, 0)
    more = await source.load(include=["package-lock.json"])
    assert (more.summary.created, more.summary.unchanged) == (1, 12)
    assert source.documents() & OTHERS == {LOCK}


async def test_what_was_sent_before_and_is_left_out_now_is_not_missing(source: Source) -> None:
    await source.load(include=["*"])
    outcome = await source.load(delete_missing=True)
    assert (outcome.plan.delete, outcome.plan.left_out, outcome.summary.left_out) == (0, 3, 3)
    assert "3 sent before and now skipped, kept" in outcome.plan.text()
    assert "3 sent before and now skipped, kept" in outcome.summary.text()
    assert outcome.summary.complete
    assert len(source.documents()) == 15
    (source.folder / LOCK).unlink()
    gone = await source.load(delete_missing=True, include=["package-lock.json"])
    assert (gone.summary.deleted, gone.plan.left_out) == (1, 2)
    assert source.documents() & OTHERS == {"site.css", "server.pem"}


async def test_what_an_interrupted_run_never_sent_is_not_said_to_stay(source: Source) -> None:
    async def stop(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await source.load(include=["*"], hooks=Hooks(on_plan=stop))
    outcome = await source.load()
    assert (outcome.summary.created, outcome.plan.left_out, outcome.summary.left_out) == (12, 0, 0)
    assert len(source.documents()) == 12


async def test_manifest_asks_for_what_it_names_and_misses_what_it_no_longer_names(source: Source) -> None:
    notes = list(map(note, range(12)))
    manifest = source.manifest("path", *notes, LOCK, "site.css")
    first = await source.load(manifest)
    assert (first.summary.created, first.scanned.left_out()) == (14, [])
    source.manifest("path", *notes, LOCK)
    second = await source.load(manifest, delete_missing=True)
    assert (second.summary.deleted, second.plan.left_out) == (1, 0)
    assert "site.css" not in source.documents()
