"""`carrel snapshot`, `carrel collections` and `carrel search`, against the real service."""

import shlex

import pytest

from carrel.wire.search import AppliedFiltering, AppliedOptions, DrawnFilter, FilterOperator
from cli.screen import Screen
from cli.search import _show_applied
from flows.operations.snapshots.files import Difference
from tests.cli.conftest import Run, ran
from tests.harness.documents import add_to_collection, ok, upload


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
        assert (ended.code, "empty is not a readable snapshot" in ended.err, "Errno" in ended.err) == (2, True, False)
    assert run("snapshot", "take", CARREL_API_KEY=service.new_user("ada@example.test")).code == 3


def test_one_is_no_plural() -> None:
    figures = dict.fromkeys(("same", "added", "removed", "left", "more"), 0)
    one = Difference(
        since="then", consistent=True, widened=1, narrowed=1, gained=1, lost=2, joined=1, changes=[], **figures
    )
    assert "(once a person can now read a resource), 1 narrowed (2 times a person can no longer)" in one.text()
    assert one.text().endswith("; 1 person joined, 0 left.")


CREATE = ("collections", "create")


@pytest.fixture
def filled(service, run) -> str:
    created = run(*CREATE, "Harbour [bold]", "--field", "year:INT", "--json").json
    identifier = str(created["documentCollectionId"])
    ok(upload(service, "menu.md", "Soup and bread at noon.", file_name="menu.md"))
    tides = ok(upload(service, "tides.md", "The tide turns at noon.\nMind the pier.", file_name="tides.md"))
    ok(add_to_collection(service, tides["documentId"], identifier, customMetadata={"year": "2026"}))
    return identifier


def test_collections_are_listed_and_shown(run, filled: str) -> None:
    listed = run("collections", "list")
    assert (listed.code, "Harbour [bold]" in listed.out, filled in listed.out) == (0, True, True)
    for name in ("Harbour [bold]", filled):
        shown = run("collections", "show", name)
        assert (shown.code, "year: INT" in shown.out) == (0, True)
    (one,) = run("collections", "list", "--json").json["documentCollections"]
    assert (one["collectionName"], one["documentCount"]) == ("Harbour [bold]", 1)
    unknown = run("collections", "show", "Elsewhere")
    assert (unknown.code, "carrel collections list" in unknown.err) == (2, True)


def test_a_name_can_be_taken_once(run) -> None:
    assert run(*CREATE, "Harbour").code == 0
    assert run(*CREATE, "Harbour").code == 2
    assert run(*CREATE, "Pier", "--field", "year:YEAR").code == 2


def test_a_collection_is_deleted_only_by_who_says_so(run, run_on_terminal, filled: str) -> None:
    silent = run("collections", "delete", filled)
    assert (silent.code, "--yes" in silent.err) == (2, True)
    asked = run_on_terminal("collections", "delete", filled, answer="n\n")
    assert (asked.code, "Nothing was deleted" in asked.out) == (0, True)
    assert run("collections", "show", filled).code == 0
    assert run("collections", "delete", filled, "--yes").code == 0
    assert run("collections", "show", filled).code == 2
    assert "tides.md" in run("search", "tide").out


def test_search_shows_what_its_owner_may_read(run, service, filled: str) -> None:
    service.new_user("ada@example.test")
    found = run("search", "what happens at noon")
    assert (found.code, "tides.md" in found.out, "menu.md" in found.out) == (0, True, True)
    assert "The tide turns at noon. Mind the pier." in found.out
    within = run("search", "noon", "--collection", filled, "--where", "year >= 2026")
    assert ("tides.md" in within.out, "menu.md" in within.out) == (True, False)
    nothing = run("search", "noon", "--collection", filled, "--where", "year<2026")
    assert (nothing.code, nothing.out) == (0, "")
    drawn = run("search", "files of the year 2026 on noon", "--collection", filled, "--smart-filters")
    assert ("tides.md" in drawn.out, "menu.md" in drawn.out) == (True, False)
    assert "From the query: --where 'year == 2026'" in drawn.err
    answer = run("search", "noon", "--limit", "1", "--json").json
    assert (answer["exitCode"], len(answer["results"])) == (0, 1)
    hers = run("search", "noon", "--as", "ada@example.test")
    assert (hers.code, hers.out) == (0, "")
    assert run("search", "noon", "--where", "year 2026").code == 2


def test_search_says_what_it_made_of_the_query(run, service, filled: str) -> None:
    for name in ("ferry.md", "boat.md"):
        ok(upload(service, name, "Ferry passengers wait at gate seven until noon every day.", file_name=name))
    found = run("search", "passangers VLTP note:x", "--group", "--order", "newest")
    assert "No document you can read contains VLTP" in found.err
    assert "Searched for passengers instead of passangers; --as-typed keeps it." in found.err
    assert "note: is no field" in found.err
    assert "can't only exclude" in run("search", "-ferry").err
    refused = [run("search", query) for query in ("", " ", "x" * 8193)]
    assert [each.code for each in refused] == [2, 2, 2]
    assert "must not be empty" in refused[0].err
    assert "The query is empty" in refused[1].err
    assert "is too long, with 8,193 characters: at most 8,192 are allowed" in refused[2].err
    assert "and 1 similar: ferry" in found.out
    assert "Searched for" not in run("search", "passangers", "--as-typed").err
    assert run("search", "noon", "--group", "--collection", filled).code == 2
    assert "No document in the collection contains VLTP" in run("search", "noon VLTP", "--collection", filled).err


def test_a_filter_from_the_query_is_shown_as_a_shell_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = DrawnFilter(field="owner", operator=FilterOperator.EQUAL, value="O'Hara; $(id)", words="of O'Hara")
    applied = AppliedOptions(filtering=AppliedFiltering(filters=[drawn], dropped=False), without_meaning=2)
    _show_applied(applied, screen=Screen(as_json=False))
    shown, waiting = capsys.readouterr().err.splitlines()
    assert shlex.split(shown.partition(": ")[2]) == ["--where", "owner == O'Hara; $(id)"]
    assert waiting == "2 documents can be found only by words so far."
