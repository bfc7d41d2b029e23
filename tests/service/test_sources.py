"""Sources and quarantine: reported completely, visible to the reporter and admins, ignored by item."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from service.domains.documents.sources import queries
from service.domains.documents.sources import service as rules
from tests.service.directory import code, done, on_rows
from tests.service.service_accounts import a_token, an_account, enable_service_accounts
from tests.service.sources import LEDGER, Reporter, an_item

OTHER_LEDGER = "0" * 24
NOT_FOUND = (404, "source_not_found")
OVER = (409, "source_report_over")


@pytest.fixture
def reporter(service) -> Reporter:
    return Reporter(service, service.new_user("ada@example.test"))


def test_a_source_as_it_was_reported(reporter: Reporter) -> None:
    collection = "0190c1c0-0000-7000-8000-000000000001"
    item, problem = an_item("b"), an_item("")
    del problem["documentExternalId"]
    problem["place"] = "line 12"
    source = reporter.report([item, problem], documentCollectionId=collection)
    assert reporter.sources() == [source]
    assert source["reportedBy"]["email"] == "ada@example.test"
    told = {"ledger": LEDGER, "source": "/srv/handbook", "documentCollectionId": collection}
    assert source.items() >= {**told, "itemCount": 2, "ignoredCount": 0}.items()
    assert reporter.items(source["sourceId"]) == [
        {"name": "b", "ignored": False, **item},
        {"name": "line 12", "ignored": False, **problem},
    ]


def test_sources_are_listed_by_their_ledger_and_reporter(reporter: Reporter) -> None:
    theirs = reporter.report()
    second = Reporter(reporter.service, reporter.api_key, OTHER_LEDGER).report([an_item("a")])
    assert reporter.sources() == [theirs, second]
    assert done(reporter.call("listSources", {"ledger": OTHER_LEDGER}))["sources"] == [second]
    admin, own = Reporter(reporter.service), {"ledger": LEDGER, "own": True}
    assert done(admin.call("listSources", own))["sources"] == []
    of_admin = admin.report()
    assert done(admin.call("listSources", own))["sources"] == [of_admin]
    assert done(admin.call("listSources", {"ledger": LEDGER}))["sources"] == [theirs, of_admin]


def test_a_report_replaces_the_one_before(reporter: Reporter) -> None:
    first = reporter.report([an_item("a"), an_item("b")])
    second = reporter.report([an_item("b", message="Its password is unknown."), an_item("c")], source="handbook")
    assert (second["sourceId"], second["source"], second["itemCount"]) == (first["sourceId"], "handbook", 2)
    found = {item["name"]: item["message"] for item in reporter.items(first["sourceId"])}
    assert found == {"b": "Its password is unknown.", "c": "It is encrypted."}


def test_a_batch_that_is_sent_again_adds_nothing(reporter: Reporter) -> None:
    report = reporter.begin()
    for _ in range(2):
        done(reporter.add(report, an_item("a"), an_item("a", message="Again."), an_item("a", place="b.md")))
    assert done(reporter.end(report))["itemCount"] == 2
    found = {item["place"]: item["message"] for item in reporter.items(report["sourceId"])}
    assert found == {"a.md": "Again.", "b.md": "It is encrypted."}
    assert reporter.ignore(report["sourceId"], "a") == []
    assert reporter.sources()[0]["ignoredCount"] == 2


def test_a_report_that_does_not_end_changes_nothing(reporter: Reporter) -> None:
    reporter.add(reporter.begin(), an_item("a"))
    assert reporter.sources() == []
    source = reporter.report([an_item("b")])
    unended = reporter.begin(source="elsewhere", documentCollectionId=source["sourceId"])
    done(reporter.add(unended, an_item("c")))
    assert reporter.sources() == [source]
    assert reporter.names(source["sourceId"]) == ["b"]


def test_of_two_reports_the_newer_wins_whole(reporter: Reporter) -> None:
    older = reporter.begin()
    done(reporter.add(older, an_item("old")))
    newer = reporter.begin()
    refused = [code(reporter.add(older, an_item("more"))), code(reporter.end(older))]
    done(reporter.add(newer, an_item("new")))
    source = done(reporter.end(newer))
    assert done(reporter.end(newer)) == source
    refused += [code(reporter.add(one, an_item("more"))) for one in (older, newer)]
    refused += [code(reporter.end(one)) for one in (older, {**newer, "reportNo": 7})]
    assert refused == [OVER] * 6
    assert reporter.names(source["sourceId"]) == ["new"]


def test_nothing_is_sent_when_nothing_has_changed(reporter: Reporter) -> None:
    first = reporter.report([an_item("a")], fingerprint="one")
    unended = reporter.begin(fingerprint="two")
    assert reporter.begin(fingerprint="one") == {"sourceId": first["sourceId"]}
    assert code(reporter.end(unended)) == OVER
    [again] = reporter.sources()
    assert again["reportedAt"] > first["reportedAt"]
    assert {**again, "reportedAt": ""} == {**first, "reportedAt": ""}
    assert "reportNo" in reporter.begin(fingerprint="one", source="elsewhere")
    assert "reportNo" in reporter.begin(fingerprint="two")
    assert "reportNo" in reporter.begin()


def test_what_is_ignored_stays_so_while_it_is_the_same(reporter: Reporter) -> None:
    source_id = reporter.report([an_item("a"), an_item("b"), an_item("c"), an_item("d")])["sourceId"]
    assert reporter.ignore(source_id, "a", "b", "c", "nowhere") == ["nowhere"]
    assert reporter.ignore(source_id, "c", "d", undo=True) == []
    again = reporter.report([an_item("a", place="x", message="?"), an_item("b", fingerprint="two"), an_item("c")])
    assert (again["itemCount"], again["ignoredCount"]) == (2, 1)
    assert reporter.names(source_id, ignored=True) == ["a"]
    assert reporter.names(source_id, ignored=False) == ["b", "c"]


def test_what_is_ignored_before_and_during_a_report_is_ignored_after_it(reporter: Reporter) -> None:
    items = [an_item("a"), an_item("b", ignored=True)]
    source_id = reporter.report(items)["sourceId"]
    assert reporter.names(source_id, ignored=True) == ["b"]
    report = reporter.begin()
    done(reporter.add(report, an_item("a"), an_item("b")))
    reporter.ignore(source_id, "a")
    reporter.ignore(source_id, "b", undo=True)
    done(reporter.end(report))
    assert reporter.names(source_id, ignored=True) == ["a"]
    reporter.report(items)
    assert reporter.names(source_id, ignored=True) == ["a"]


def test_pages_of_many_items(reporter: Reporter) -> None:
    items = [an_item(f"{number:04}") for number in range(1200)]
    source = reporter.report(items)
    names = [item["documentExternalId"] for item in items]
    assert source["itemCount"] == 1200
    assert reporter.names(source["sourceId"], page_size=1000) == names
    body = {"sourceId": source["sourceId"], "pageSize": 250}
    page = done(reporter.call("listSourceItems", body))
    reporter.report([*reversed(items), an_item("0000a"), an_item("9999")])
    seen = page["items"]
    while token := page.get("nextPageToken"):
        page = done(reporter.call("listSourceItems", {**body, "pageToken": token}))
        seen += page["items"]
    assert [item["name"] for item in seen] == [*names, "9999"]


def test_large_reports_replace_each_other(reporter: Reporter) -> None:
    items = [an_item(f"{number:05}") for number in range(20_000)]
    reporter.ignore(reporter.report(items)["sourceId"], "00007", "19999")
    again = reporter.report([*items[1:], an_item("new")])
    assert (again["itemCount"], again["ignoredCount"]) == (19_998, 2)


def test_a_page_token_is_good_for_its_query_alone(reporter: Reporter) -> None:
    source = reporter.report([an_item("a"), an_item("b")])
    other = Reporter(reporter.service, reporter.api_key, OTHER_LEDGER).report()
    body = {"sourceId": source["sourceId"], "pageSize": 1}
    token = done(reporter.call("listSourceItems", body))["nextPageToken"]
    for changed in ({"ignored": False}, {"sourceId": other["sourceId"]}):
        answer = reporter.call("listSourceItems", {**body, **changed, "pageToken": token})
        assert code(answer) == (400, "invalid_page_token")
    answer = Reporter(reporter.service).call("listSourceItems", {**body, "pageToken": token})
    assert code(answer) == (400, "invalid_page_token")


def test_for_others_there_is_no_source(reporter: Reporter) -> None:
    service = reporter.service
    source = reporter.report([an_item("a")])
    report = reporter.begin()
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", "catalog:write")["token"]
    for other in (Reporter(service, service.new_user("bob@example.test")), Reporter(service, token)):
        assert other.sources() == []
        assert other.report()["sourceId"] != source["sourceId"]
    done(reporter.add(report, an_item("b")))
    done(reporter.end(report))
    assert reporter.names(source["sourceId"]) == ["b"]


def test_an_admin_may_what_the_reporter_may(reporter: Reporter) -> None:
    admin = Reporter(reporter.service)
    source = reporter.report([an_item("a")])
    assert admin.sources() == [source]
    assert admin.ignore(source["sourceId"], "a") == []
    assert reporter.names(source["sourceId"], ignored=True) == ["a"]
    report = reporter.begin()
    done(admin.call("removeSource", {"sourceId": source["sourceId"]}))
    assert reporter.sources() == []
    assert code(reporter.call("listSourceItems", {"sourceId": source["sourceId"]})) == NOT_FOUND
    assert code(reporter.add(report, an_item("a"))) == code(reporter.end(report)) == NOT_FOUND
    again = reporter.report([an_item("a")])
    assert again["sourceId"] != source["sourceId"]
    assert (again["itemCount"], again["ignoredCount"]) == (1, 0)


def test_whoever_reports_is_named(reporter: Reporter) -> None:
    service = reporter.service
    enable_service_accounts(service)
    account = an_account(service)
    writer, reader = (
        Reporter(service, a_token(service, account, f"catalog:{scope}")["token"]) for scope in ("write", "read")
    )
    source = writer.report([an_item("a")])
    assert reader.sources() == [source]
    assert source["reportedBy"]["id"] == account["serviceAccountId"]
    key, ada = Reporter(reporter.service), {"userEmail": "ada@example.test"}
    report = key.begin(**ada)
    done(key.call("reportSourceItems", {**report, "items": [an_item("a")], **ada}))
    source = done(key.call("endSourceReport", {**report, **ada}))
    assert reporter.sources() == [source]
    assert source["reportedBy"]["email"] == "ada@example.test"


WRONG = json.loads(Path(__file__).with_name("wrong_sources.json").read_text("utf-8"))
"""Members that make a source or an item invalid, and the fields named in the answer."""


def fields_of(answer: httpx.Response) -> list[str]:
    assert code(answer) == (400, "invalid_request")
    return [one["field"] for one in answer.json()["error"].get("details", [])]


def test_a_source_that_can_not_be_one_is_refused(reporter: Reporter) -> None:
    for members, field in WRONG["sources"]:
        answer = reporter.call("reportSource", {"ledger": LEDGER, "source": "/srv/handbook", **members})
        assert (members, fields_of(answer)) == (members, [field])
        assert "secret" not in answer.text
    assert reporter.begin()["reportNo"] == 1


def test_an_item_that_can_not_be_one_is_refused(reporter: Reporter) -> None:
    report = reporter.begin()
    for members, fields in WRONG["items"]:
        content = json.dumps({**report, "items": [an_item("a"), an_item("b", **members)]}).encode()
        headers = {"Authorization": f"Bearer {reporter.api_key}", "Content-Type": "application/json"}
        answer = reporter.service.http.post("/api/v0/sources/reportSourceItems", content=content, headers=headers)
        assert (members, fields_of(answer)) == (members, fields)
    assert done(reporter.end(report))["itemCount"] == 0


def test_numbers_are_bounded(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_ITEMS", 3)
    report = reporter.begin()
    done(reporter.add(report, an_item("a"), an_item("b")))
    assert code(reporter.add(report, an_item("c"), an_item("d"))) == (409, "too_many_source_items")
    assert code(reporter.add(report, *[an_item(str(number)) for number in range(1001)])) == (400, "invalid_request")
    for wrong in (0, -1, 2**31, 1.5, "1", True):
        assert code(reporter.end({**report, "reportNo": wrong})) == (400, "invalid_request")
    source_id = report["sourceId"]
    for names in ([], [str(number) for number in range(1001)], ["a", "a"], [""], ["x" * 4097]):
        answer = reporter.call("ignoreSourceItems", {"sourceId": source_id, "names": names})
        assert code(answer) == (400, "invalid_request")
    assert done(reporter.end(report))["itemCount"] == 2


def test_long_names_are_kept_told_apart_and_paged(reporter: Reporter) -> None:
    names = [f"{'⛴' * 4000}{number}" for number in range(3)] + ["'; DROP TABLE sources; --", "%", "\\", "\x01"]
    source_id = reporter.report([an_item(name, place=name) for name in names])["sourceId"]
    assert sorted(reporter.names(source_id, page_size=1)) == sorted(names)
    assert reporter.ignore(source_id, names[1], names[5], f"{'⛴' * 4000}") == ["⛴" * 4000]
    assert set(reporter.names(source_id, ignored=True)) == {names[1], names[5]}


def test_an_organization_has_so_many_sources(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source never reported completely is invisible, so it is removed after a day."""
    monkeypatch.setattr(rules, "MOST_SOURCES", 1)
    too_many = (409, "too_many_sources")
    other = Reporter(reporter.service, ledger=OTHER_LEDGER)
    ours, theirs = ({"ledger": ledger, "source": "/srv/other"} for ledger in (LEDGER, OTHER_LEDGER))
    source = reporter.report()
    assert code(other.call("reportSource", theirs)) == too_many
    reporter.report([an_item("a")])
    done(reporter.call("removeSource", {"sourceId": source["sourceId"]}))
    reporter.begin()
    assert code(other.call("reportSource", theirs)) == too_many
    a_day_later = "UPDATE source_reports SET begun_at = now() - interval '25 hours'"
    on_rows(reporter.service, a_day_later)
    source = other.report()
    on_rows(reporter.service, a_day_later)
    assert code(reporter.call("reportSource", ours)) == too_many
    assert [one["sourceId"] for one in other.sources()] == [source["sourceId"]]


def test_the_audit_log_tells_what_people_did(reporter: Reporter) -> None:
    source_id = reporter.report([an_item("a"), an_item("b")])["sourceId"]
    reporter.ignore(source_id, "b", "a", "nowhere")
    reporter.ignore(source_id, "a", "b")
    reporter.ignore(source_id, "a", undo=True)
    done(reporter.call("removeSource", {"sourceId": source_id}))
    entries = done(reporter.service.call("admin/auditLog/query", {"targetId": source_id}))["entries"]
    assert [(one["action"], one["actor"]["email"], one["details"], one.get("text")) for one in entries] == [
        ("source.remove", "ada@example.test", {"ledger": LEDGER}, None),
        ("source.restore_items", "ada@example.test", {"ledger": LEDGER, "itemCount": 1}, "a"),
        ("source.ignore_items", "ada@example.test", {"ledger": LEDGER, "itemCount": 2}, "b\na"),
    ]
    assert {one["target"]["type"] for one in entries} == {"source"}


def test_reports_at_once_never_mix(reporter: Reporter) -> None:
    source_id = reporter.report()["sourceId"]

    def report(who: str) -> int:
        ended = 0
        for _ in range(6):
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


def test_a_source_that_two_report_first_is_one(reporter: Reporter, race) -> None:
    race.stop_behind(queries, "insert_source")
    first = race.begin(reporter.begin)
    second = race.begin_blocked(reporter.service, reporter.begin)
    race.release()
    older, newer = first.result(60), second.result(60)
    assert older["sourceId"] == newer["sourceId"]
    assert [older["reportNo"], newer["reportNo"]] == [1, 2]
    assert code(reporter.end(older)) == (409, "source_report_over")
    done(reporter.end(newer))


def test_the_middle_of_an_end_is_not_seen(reporter: Reporter, race) -> None:
    source = reporter.report([an_item("a"), an_item("b")])
    report = reporter.begin()
    done(reporter.add(report, an_item("b"), an_item("c"), an_item("d")))
    race.stop_behind(queries, "update_source")
    ending = race.begin(reporter.end, report)
    assert reporter.sources() == [source]
    assert reporter.names(source["sourceId"]) == ["a", "b"]
    ignoring = race.begin_blocked(reporter.service, reporter.ignore, source["sourceId"], "a", "c")
    race.release()
    assert done(ending.result(60))["itemCount"] == 3
    assert ignoring.result(60) == ["a"]
    assert reporter.names(source["sourceId"], ignored=True) == ["c"]
