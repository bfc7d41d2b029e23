"""`carrel snapshot`: taken, compared, and its exit codes."""

import json
from pathlib import Path

from flows.operations.snapshots.difference import Difference
from tests.cli.conftest import Run
from tests.harness.services import RunningService


def test_take_and_compare(run: Run, service: RunningService, tmp_path: Path) -> None:
    """A snapshot says where it is and what changed since the last; comparing says by its code whether anything did."""
    settings = {"CARREL_DATA_DIR": str(tmp_path / "data")}
    first = run("snapshot", "take", "--json", **settings)
    assert first.code == 0, first.err
    folder = json.loads(first.out)["folder"]
    parts = {"documentExternalId": "log", "internalPublic": "true"}
    for contents in (b"Calm.", b"A storm."):
        service.http.post("/api/v0/catalog/uploadFile", data=parts, files={"file": ("log.txt", contents)})
    second = run("snapshot", "take", **settings)
    assert second.code == 0, second.err
    assert "1 new" in second.out
    newest = max((tmp_path / "data" / "flows" / "snapshots").glob("*/*"))
    assert run("snapshot", "compare", folder, str(newest)).code == 1
    assert run("snapshot", "compare", folder, folder, "--json").code == 0
    (tmp_path / "empty").mkdir()
    for order in ((folder, "empty"), ("empty", folder)):
        ended = run("snapshot", "compare", *order)
        assert (ended.code, "empty is no snapshot" in ended.err, "Errno" in ended.err) == (2, True, False)


def test_one_is_no_plural() -> None:
    """A single change reads as one."""
    figures = dict.fromkeys(("same", "added", "removed", "left", "more"), 0)
    one = Difference(
        since="then", consistent=True, widened=1, narrowed=1, gained=1, lost=2, joined=1, changes=[], **figures
    )
    assert "1 widened (once somebody may read something now), 1 narrowed (2 times somebody may no more)" in one.text()
    assert one.text().endswith("; 1 person joined, 0 left.")


def test_what_goes_wrong(run: Run, service: RunningService, tmp_path: Path) -> None:
    """Who is no admin is refused with 3; a folder that is no snapshot is wrong usage, named."""
    key = service.new_user("ada@example.test")
    refused = run("snapshot", "take", CARREL_API_KEY=key, CARREL_DATA_DIR=str(tmp_path / "data"))
    assert refused.code == 3
    (tmp_path / "empty").mkdir()
    ended = run("snapshot", "compare", "empty", "empty")
    assert ended.code == 2
    assert "empty" in ended.err
