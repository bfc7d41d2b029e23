"""Sources that are reported and looked at by several at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.domains.sources import queries
from tests.harness.services import RunningService
from tests.service.directory import code, done
from tests.service.races import Race, race_with
from tests.service.sources import Reporter, an_item

ROUNDS = 12


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    """A race that is over at the end of the test."""
    with race_with(monkeypatch) as race:
        yield race


def test_reports_at_once_never_mix(service: RunningService) -> None:
    """Four report other items each, again and again; whoever looks sees one report of one of them, and its counts."""
    reporter = Reporter(service)
    source_id = reporter.report()["sourceId"]

    def report(who: str) -> int:
        ended = 0
        for _ in range(ROUNDS):
            begun = reporter.begin()
            for number in range(3):
                reporter.add(begun, *(an_item(f"{who}{number}{one}") for one in range(10)))
            ended += reporter.end(begun).status_code == 200
        return ended

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(report, who) for who in "abcd"]
        seen = set[str]()
        while not all(one.done() for one in working):
            names = reporter.names(source_id)
            assert len(names) in {0, 30}
            assert len({name[0] for name in names}) <= 1
            seen |= set(names)
        assert sum(one.result() for one in working) > 0
    assert reporter.report([an_item("last")])["itemCount"] == 1
    assert reporter.names(source_id) == ["last"]


def test_a_source_that_two_report_first_is_one(service: RunningService, race: Race) -> None:
    """The second one waits for the first one's transaction, finds its source, and has the newer report."""
    reporter = Reporter(service)
    race.stop_behind(queries, "insert_source")
    first = race.begin(reporter.begin)
    second = race.begin_blocked(service, reporter.begin)
    race.release()
    older, newer = first.result(60), second.result(60)
    assert older["sourceId"] == newer["sourceId"]
    assert [older["reportNo"], newer["reportNo"]] == [1, 2]
    assert code(reporter.end(older)) == (409, "source_report_over")
    done(reporter.end(newer))


def test_the_middle_of_an_end_is_not_seen(service: RunningService, race: Race) -> None:
    """Until its commit the report before is seen whole; who ignores an item meanwhile ignores it in the new one."""
    reporter = Reporter(service)
    source = reporter.report([an_item("a"), an_item("b")])
    report = reporter.begin()
    done(reporter.add(report, an_item("b"), an_item("c"), an_item("d")))
    race.stop_behind(queries, "update_source")
    ending = race.begin(reporter.end, report)
    assert reporter.sources() == [source]
    assert reporter.names(source["sourceId"]) == ["a", "b"]
    ignoring = race.begin_blocked(service, reporter.ignore, source["sourceId"], "a", "c")
    race.release()
    assert done(ending.result(60))["itemCount"] == 3
    assert ignoring.result(60) == ["a"]
    assert reporter.names(source["sourceId"], ignored=True) == ["c"]
