"""An object store as a source, over real HTTP to an S3-compatible server."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from flows.errors import SourceError
from flows.operations.sources import objects
from flows.operations.sources.documents import Defaults, Problem, Skipped, SourceDocument
from flows.operations.sources.objects import object_identity
from flows.operations.sources.reading import read_source, source_identity
from tests.harness.cases import cases
from tests.harness.object_store import SECRET, Bucket, object_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with object_store(str(tmp_path_factory.mktemp("store") / "log")) as bucket:
        yield bucket


@pytest.fixture
def bucket(store: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(store.endpoint, store.environment).make()
    for number in range(3):
        bucket.put(
            f"reports/{number % 2}/note {number}.md", f"# Note {number}\n\nThe ferry {number} leaves.\n".encode()
        )
    bucket.put("reports-old/old.md", b"not this one")
    bucket.put("reports/.draft.md", b"hidden")
    return bucket


async def test_objects_are_loaded_once_and_unchanged_ones_not_read(bucket: Bucket, source) -> None:
    url = f"s3://{bucket.name}/reports"
    first = (await source.load(url)).summary
    assert (first.created, first.quarantined, bucket.downloads()) == (3, 0, 3)
    assert source.documents() == {"0/note 0.md", "0/note 2.md", "1/note 1.md"}
    for loaded in (source, source.using(data_dir=source.settings.data_dir / "another")):
        again = (await loaded.load(url + "/")).summary
        assert (again.unchanged, again.sent_bytes, bucket.downloads()) == (3, 0, 3)
    bucket.put("reports/1/note 1.md", b"# Note 1\n\nThe timetable has changed.\n")
    changed = (await source.load(url)).summary
    assert (changed.updated, changed.unchanged, bucket.downloads()) == (1, 2, 4)


async def test_an_object_that_changes_between_listing_and_sending(bucket, source, monkeypatch) -> None:
    """The stored fingerprint is of the sent bytes, so the next run finds the object unchanged."""
    listed = objects._item

    def then_changed(*arguments: Any, **keywords: Any) -> Any:
        item = listed(*arguments, **keywords)
        if item.place == "0/note 0.md":
            bucket.put("reports/0/note 0.md", b"# Note 0\n\nWritten anew meanwhile.\n")
        if item.place == "0/note 2.md":
            bucket.delete("reports/0/note 2.md")
        return item

    with monkeypatch.context() as changing:
        changing.setattr(objects, "_item", then_changed)
        outcome = await source.load(f"s3://{bucket.name}/reports")
    assert (outcome.summary.created, outcome.summary.failed) == (2, 1)
    again = (await source.load(f"s3://{bucket.name}/reports")).summary
    assert (again.unchanged, again.sent) == (2, 0)


async def test_a_large_object_is_not_held_in_memory(bucket, source, monkeypatch) -> None:
    monkeypatch.setattr(objects, "IN_MEMORY", 10)
    content = b"# Large\n\n" + b"The tide turns. " * 1000
    bucket.put("large/book.md", content)
    counts = (await source.load(f"s3://{bucket.name}/large")).summary
    assert (counts.created, counts.sent_bytes) == (1, len(content))


def test_what_a_listing_has_that_is_no_document(bucket: Bucket) -> None:
    bucket.put("reports/c d#é.md", b"x")

    def places(**options: Any) -> list[str]:
        items = read_source(f"s3://{bucket.name}/reports", defaults=Defaults(**options))
        return sorted(item.place for item in items if isinstance(item, SourceDocument))

    assert places() == ["0/note 0.md", "0/note 2.md", "1/note 1.md", "c d#é.md"]
    assert ".draft.md" in places(hidden=True)
    skipped = [item for item in read_source(f"s3://{bucket.name}", defaults=Defaults()) if isinstance(item, Skipped)]
    assert [(item.place, item.reason) for item in skipped] == [("reports/.draft.md", "hidden")]


def test_a_listing_that_fails_or_is_empty_is_no_source(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bucket.put_raw("odd//key.md", b"x")
    said: list[str] = []
    for url, words in (
        (f"s3://{bucket.name}/nothing", "has no objects"),
        (f"s3://{bucket.name}-missing/reports", "NoSuchBucket"),
        (f"s3://{bucket.name}/odd", "unusable key"),
    ):
        with pytest.raises(SourceError, match=words) as raised:
            list(read_source(url, defaults=Defaults()))
        said.append(str(raised.value))
    assert not any(SECRET in text for text in (*said, caplog.text))


@pytest.mark.parametrize(("url", "words"), cases("urls_that_are_no_source"))
def test_urls_that_are_no_source(url: str, words: str) -> None:
    with pytest.raises(SourceError, match=words) as raised:
        source_identity(url)
    assert "secret" not in str(raised.value)


def test_one_prefix_has_one_identity(tmp_path) -> None:
    assert {object_identity(url) for url in ("s3://b/x/y", "S3://b/x/y/", "s3://b//x//y")} == {"s3://b/x/y"}
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "note.md").write_text("x")
    url = f"file://{tmp_path}/a%20b"
    assert source_identity(url) == source_identity(str(tmp_path / "a b"))
    assert [one.place for one in read_source(url, defaults=Defaults()) if not isinstance(one, Problem)] == ["note.md"]


def test_markers_tell_versions_apart() -> None:
    """Quotes and weakness of an ETag don't matter; size does, and the time where there is no ETag."""

    def marker(tag: str | None = '"a"', *, size: int = 1, day: int = 1) -> str:
        changed = datetime(2026, 1, day, tzinfo=UTC)
        meta: Any = {"path": "x", "e_tag": tag, "size": size, "version": None, "last_modified": changed}
        return objects.marker_of(meta)

    assert marker() == marker('W/"a"') == marker("a")
    assert marker() != marker(size=2)
    assert marker(None) != marker(None, day=2)
