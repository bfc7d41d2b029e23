"""`carrel snapshot`: taken, compared, and its exit codes."""

from flows.operations.snapshots.files import Difference
from tests.cli.conftest import Run, ran
from tests.harness.documents import ok, upload


def test_take_and_compare(run: Run, service, tmp_path) -> None:
    folder = ran(run, "snapshot", "take")["folder"]
    for contents in ("Calm.", "A storm."):
        ok(upload(service, "log", contents, internalPublic="true"))
    second = run("snapshot", "take")
    assert (second.code, "1 new" in second.out) == (0, True), second
    newest = max((tmp_path / "data" / "flows" / "snapshots").glob("*/*"))
    assert run("snapshot", "compare", folder, str(newest)).code == 1
    assert run("snapshot", "compare", folder, folder, "--json").code == 0
    (tmp_path / "empty").mkdir()
    for order in ((folder, "empty"), ("empty", folder)):
        ended = run("snapshot", "compare", *order)
        assert (ended.code, "empty is no snapshot" in ended.err, "Errno" in ended.err) == (2, True, False)
    assert run("snapshot", "take", CARREL_API_KEY=service.new_user("ada@example.test")).code == 3


def test_one_is_no_plural() -> None:
    figures = dict.fromkeys(("same", "added", "removed", "left", "more"), 0)
    one = Difference(
        since="then", consistent=True, widened=1, narrowed=1, gained=1, lost=2, joined=1, changes=[], **figures
    )
    assert "1 widened (once somebody may read something now), 1 narrowed (2 times somebody may no more)" in one.text()
    assert one.text().endswith("; 1 person joined, 0 left.")
