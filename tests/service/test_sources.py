"""Sources and their quarantine: reported as a whole, seen by who reports them and by admins, ignored item by item."""

import json
from typing import Any

import httpx
import pytest

from service.domains.sources import service as rules
from tests.harness.services import RunningService
from tests.service.directory import another_organization, code, done
from tests.service.service_accounts import a_token, an_account, enable_service_accounts
from tests.service.sources import LEDGER, SINCE, Reporter, an_item

OTHER_LEDGER = "0" * 24
NOT_FOUND = (404, "source_not_found")
OVER = (409, "source_report_over")


@pytest.fixture
def reporter(service: RunningService) -> Reporter:
    """A user who is no admin."""
    return Reporter(service, service.new_user("ada@example.test"))


def a_problem(line: int, **members: Any) -> dict[str, Any]:
    """What can't be a document, at a line of a manifest."""
    return {
        "place": f"line {line}",
        "code": "file_missing",
        "message": "The file is not there.",
        "fingerprint": f"missing {line}",
        "since": SINCE,
        **members,
    }


def test_a_source_as_it_was_reported(reporter: Reporter) -> None:
    """Its text, collection, reporter, counts and items are told as they came; what has no id goes by its place."""
    collection = "0190c1c0-0000-7000-8000-000000000001"
    source = reporter.report([an_item("b"), a_problem(12)], documentCollectionId=collection)
    assert reporter.sources() == [source]
    assert source["reportedBy"]["email"] == "ada@example.test"
    told = {name: source[name] for name in ("ledger", "source", "documentCollectionId", "itemCount", "ignoredCount")}
    assert told == {
        "ledger": LEDGER,
        "source": "/srv/handbook",
        "documentCollectionId": collection,
        "itemCount": 2,
        "ignoredCount": 0,
    }
    assert reporter.items(source["sourceId"]) == [
        {
            "name": "b",
            "documentExternalId": "b",
            "place": "b.md",
            "code": "file_encrypted",
            "message": "It is encrypted.",
            "fingerprint": "one",
            "since": SINCE,
            "ignored": False,
        },
        {
            "name": "line 12",
            "place": "line 12",
            "code": "file_missing",
            "message": "The file is not there.",
            "fingerprint": "missing 12",
            "since": SINCE,
            "ignored": False,
        },
    ]


def test_sources_are_listed_by_their_ledger(reporter: Reporter) -> None:
    """One of several is found by the name that its runs know."""
    first = reporter.report()
    second = Reporter(reporter.service, reporter.api_key, OTHER_LEDGER).report([an_item("a")])
    assert reporter.sources() == [first, second]
    found = done(reporter.call("listSources", {"ledger": OTHER_LEDGER}))["sources"]
    assert found == [second]


def test_an_admin_finds_what_is_its_own(reporter: Reporter) -> None:
    """Of the sources of one ledger, which several people report, those that it reports itself."""
    theirs = reporter.report()
    admin = Reporter(reporter.service)
    assert done(admin.call("listSources", {"ledger": LEDGER, "own": True}))["sources"] == []
    own = admin.report()
    assert done(admin.call("listSources", {"ledger": LEDGER, "own": True}))["sources"] == [own]
    assert done(admin.call("listSources", {"ledger": LEDGER}))["sources"] == [theirs, own]


def test_a_report_replaces_the_one_before(reporter: Reporter) -> None:
    """Items that it does not name go; those that it names are as it says, and the source keeps its id."""
    first = reporter.report([an_item("a"), an_item("b")])
    second = reporter.report([an_item("b", message="Its password is unknown."), an_item("c")], source="handbook")
    assert (second["sourceId"], second["source"], second["itemCount"]) == (first["sourceId"], "handbook", 2)
    found = {item["name"]: item["message"] for item in reporter.items(first["sourceId"])}
    assert found == {"b": "Its password is unknown.", "c": "It is encrypted."}


def test_a_batch_that_is_sent_again_adds_nothing(reporter: Reporter) -> None:
    """An item of the same name and place is the same one, in one batch and in two; in another place it is another."""
    report = reporter.begin()
    for _ in range(2):
        done(reporter.add(report, an_item("a"), an_item("a", message="Again."), an_item("a", place="b.md")))
    assert done(reporter.end(report))["itemCount"] == 2
    found = {item["place"]: item["message"] for item in reporter.items(report["sourceId"])}
    assert found == {"a.md": "Again.", "b.md": "It is encrypted."}
    assert reporter.ignore(report["sourceId"], "a") == []
    assert reporter.sources()[0]["ignoredCount"] == 2


def test_a_report_that_does_not_end_changes_nothing(reporter: Reporter) -> None:
    """Neither a source that is new, nor the text, counts and items of one that has been reported before."""
    reporter.add(reporter.begin(), an_item("a"))
    assert reporter.sources() == []
    source = reporter.report([an_item("b")])
    unended = reporter.begin(source="elsewhere", documentCollectionId=source["sourceId"])
    done(reporter.add(unended, an_item("c")))
    assert reporter.sources() == [source]
    assert reporter.names(source["sourceId"]) == ["b"]


def test_of_two_reports_the_newer_wins_whole(reporter: Reporter) -> None:
    """The older one can't go on, nor end, before the newer one's end or after it; nothing of it is seen."""
    older = reporter.begin()
    done(reporter.add(older, an_item("old")))
    newer = reporter.begin()
    refused = [code(reporter.add(older, an_item("more"))), code(reporter.end(older))]
    done(reporter.add(newer, an_item("new")))
    source = done(reporter.end(newer))
    refused += [code(reporter.add(older, an_item("more"))), code(reporter.end(older))]
    assert refused == [OVER] * 4
    assert reporter.names(source["sourceId"]) == ["new"]


def test_an_end_is_told_again(reporter: Reporter) -> None:
    """Whoever lost the answer asks again and gets it; the report takes no more items, and another number is none."""
    report = reporter.begin()
    assert done(reporter.end(report)) == done(reporter.end(report))
    assert code(reporter.add(report, an_item("a"))) == OVER
    assert code(reporter.end({**report, "reportNo": 7})) == OVER


def test_nothing_is_sent_when_nothing_has_changed(reporter: Reporter) -> None:
    """With the last report's fingerprint none is begun and an unended one is over; another one, or text, is news."""
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
    """Over reports, also where its place and message are others; with another fingerprint, or put back, it counts."""
    source_id = reporter.report([an_item("a"), an_item("b"), an_item("c"), an_item("d")])["sourceId"]
    assert reporter.ignore(source_id, "a", "b", "c", "nowhere") == ["nowhere"]
    assert reporter.ignore(source_id, "c", "d", undo=True) == []
    again = reporter.report([an_item("a", place="x", message="?"), an_item("b", fingerprint="two"), an_item("c")])
    assert (again["itemCount"], again["ignoredCount"]) == (2, 1)
    assert reporter.names(source_id, ignored=True) == ["a"]
    assert reporter.names(source_id, ignored=False) == ["b", "c"]


def test_what_is_ignored_during_a_report_is_ignored_after_it(reporter: Reporter) -> None:
    """A person's word counts at the end of the report, not at its begin."""
    source_id = reporter.report([an_item("a"), an_item("b")])["sourceId"]
    reporter.ignore(source_id, "b")
    report = reporter.begin()
    done(reporter.add(report, an_item("a"), an_item("b")))
    reporter.ignore(source_id, "a")
    reporter.ignore(source_id, "b", undo=True)
    done(reporter.end(report))
    assert reporter.names(source_id, ignored=True) == ["a"]


def test_what_was_ignored_before_it_was_reported_is_taken_once(reporter: Reporter) -> None:
    """A report's word counts for what the service doesn't know; from then on only what people say counts."""
    items = [an_item("a", ignored=True), an_item("b")]
    source_id = reporter.report(items)["sourceId"]
    assert reporter.names(source_id, ignored=True) == ["a"]
    reporter.ignore(source_id, "a", undo=True)
    reporter.report(items)
    assert reporter.names(source_id, ignored=True) == []


def test_pages_of_many_items(reporter: Reporter) -> None:
    """2,500 items are each seen once, by name, also when the source is reported again between two pages."""
    items = [an_item(f"{number:04}") for number in range(2500)]
    source = reporter.report(items)
    names = [item["documentExternalId"] for item in items]
    assert source["itemCount"] == 2500
    assert reporter.names(source["sourceId"], page_size=700) == names
    page = {"sourceId": source["sourceId"], "pageSize": 1000}
    first = done(reporter.call("listSourceItems", page))
    reporter.report([*reversed(items), an_item("0000a"), an_item("9999")])
    token, seen = first["nextPageToken"], [item["name"] for item in first["items"]]
    while token:
        following = done(reporter.call("listSourceItems", {**page, "pageToken": token}))
        seen += [item["name"] for item in following["items"]]
        token = following.get("nextPageToken")
    assert seen == [*names, "9999"]


def test_large_reports_replace_each_other(reporter: Reporter) -> None:
    """20,000 items are compared with as many before them in the time a statement has."""
    items = [an_item(f"{number:05}") for number in range(20_000)]
    source_id = reporter.report(items)["sourceId"]
    reporter.ignore(source_id, "00007", "19999")
    again = reporter.report([*items[1:], an_item("new")])
    assert (again["itemCount"], again["ignoredCount"]) == (19_998, 2)


def test_a_page_token_is_good_for_its_query_alone(reporter: Reporter) -> None:
    """Not for another filter, another source, or somebody else."""
    source = reporter.report([an_item("a"), an_item("b")])
    other = Reporter(reporter.service, reporter.api_key, OTHER_LEDGER).report()
    body = {"sourceId": source["sourceId"], "pageSize": 1}
    token = done(reporter.call("listSourceItems", body))["nextPageToken"]
    for changed in ({"ignored": False}, {"sourceId": other["sourceId"]}):
        answer = reporter.call("listSourceItems", {**body, **changed, "pageToken": token})
        assert code(answer) == (400, "invalid_page_token")
    answer = Reporter(reporter.service).call("listSourceItems", {**body, "pageToken": token})
    assert code(answer) == (400, "invalid_page_token")


def requests_about(source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A request of every operation that names a source."""
    source_id = source["sourceId"]
    return {
        "reportSourceItems": {"sourceId": source_id, "reportNo": 2, "items": [an_item("z")]},
        "endSourceReport": {"sourceId": source_id, "reportNo": 2},
        "listSourceItems": {"sourceId": source_id},
        "ignoreSourceItems": {"sourceId": source_id, "names": ["a"]},
        "restoreSourceItems": {"sourceId": source_id, "names": ["a"]},
        "removeSource": {"sourceId": source_id},
    }


def test_for_others_there_is_no_source(reporter: Reporter) -> None:
    """Another user and a service account are told 404 whatever they ask, and change nothing, not even a report.

    What they report of a ledger with the same name is a source of their own.
    """
    service = reporter.service
    source = reporter.report([an_item("a")])
    report = reporter.begin()
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read", "catalog:write")["token"]
    for other in (Reporter(service, service.new_user("bob@example.test")), Reporter(service, token)):
        assert other.sources() == []
        found = {name: code(other.call(name, body)) for name, body in requests_about(source).items()}
        assert found == dict.fromkeys(found, NOT_FOUND)
        assert other.report()["sourceId"] != source["sourceId"]
    done(reporter.add(report, an_item("b")))
    done(reporter.end(report))
    assert reporter.names(source["sourceId"]) == ["b"]


def test_another_organization_has_sources_of_its_own(reporter: Reporter) -> None:
    """Its admin finds none of ours by id, and may have one with a ledger of the same name."""
    source = reporter.report([an_item("a")])
    other = Reporter(reporter.service, another_organization(reporter.service))
    about = requests_about(source)
    assert {code(other.call(name, body)) for name, body in about.items()} == {NOT_FOUND}
    theirs = other.report([an_item("b"), an_item("c")])
    assert other.sources() == [theirs]
    assert reporter.sources() == [source]


def test_an_admin_may_what_the_reporter_may(reporter: Reporter) -> None:
    """Both report the source, which stays the first one's; the admin sees, ignores and removes it."""
    admin = Reporter(reporter.service)
    source = reporter.report([an_item("a")])
    assert admin.sources() == [source]
    assert admin.ignore(source["sourceId"], "a") == []
    assert reporter.names(source["sourceId"], ignored=True) == ["a"]
    done(admin.call("removeSource", {"sourceId": source["sourceId"]}))
    assert reporter.sources() == []
    assert code(reporter.call("listSourceItems", {"sourceId": source["sourceId"]})) == NOT_FOUND


def test_a_service_account_reports_with_the_scope_of_uploads(service: RunningService) -> None:
    """catalog:write opens what changes, catalog:read what is listed, as everywhere."""
    enable_service_accounts(service)
    account = an_account(service)
    writer = Reporter(service, a_token(service, account, "catalog:write")["token"])
    reader = Reporter(service, a_token(service, account, "catalog:read")["token"])
    source = writer.report([an_item("a")])
    assert reader.sources() == [source]
    assert source["reportedBy"]["id"] == account["serviceAccountId"]
    lacking = (403, "missing_scope")
    writing = {
        name: code(reader.call(name, body)) for name, body in requests_about(source).items() if "list" not in name
    }
    assert writing == dict.fromkeys(writing, lacking)
    assert len(writing) == 5
    assert code(writer.call("listSources")) == code(writer.call("listSourceItems", {})) == lacking


def test_a_key_that_acts_for_a_user_reports_as_the_user(service: RunningService, reporter: Reporter) -> None:
    """The source is the user's, and not the key owner's."""
    key = Reporter(service)
    ada = {"userEmail": "ada@example.test"}
    report = done(key.call("reportSource", {"ledger": LEDGER, "source": "/srv/handbook", **ada}))
    done(key.call("reportSourceItems", {**report, "items": [an_item("a")], **ada}))
    source = done(key.call("endSourceReport", {**report, **ada}))
    assert reporter.sources() == [source]
    assert source["reportedBy"]["email"] == "ada@example.test"


WRONG_SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"ledger": "5F0C6A1E9B3D4C7F8A2E1B0D"}, "ledger"),
    ({"ledger": f"{LEDGER}\n"}, "ledger"),
    ({"ledger": LEDGER[1:]}, "ledger"),
    ({"source": ""}, "source"),
    ({"source": "x" * 4097}, "source"),
    ({"source": "s3://key:secret@bucket/handbook"}, "source"),
    ({"source": "https://example.test/list.csv?sig=secret"}, "source"),
    ({"documentCollectionId": "x"}, "documentCollectionId"),
    ({"fingerprint": "x" * 129}, "fingerprint"),
    ({"items": []}, "items"),
]


def fields_of(answer: httpx.Response) -> list[str]:
    """The members that a refusal names."""
    assert code(answer) == (400, "invalid_request")
    return [one["field"] for one in answer.json()["error"].get("details", [])]


def test_a_source_that_can_not_be_one_is_refused(reporter: Reporter) -> None:
    """By the member that is wrong, without repeating what it holds; and nothing is made."""
    for members, field in WRONG_SOURCES:
        answer = reporter.call("reportSource", {"ledger": LEDGER, "source": "/srv/handbook", **members})
        assert (members, fields_of(answer)) == (members, [field])
        assert "secret" not in answer.text
    assert reporter.begin()["reportNo"] == 1


WRONG_ITEMS: list[tuple[dict[str, Any], list[str]]] = [
    ({"place": ""}, ["items.1.place"]),
    ({"place": "x" * 4097}, ["items.1.place"]),
    ({"place": "a\0b"}, []),
    ({"place": "\ud800"}, []),
    ({"documentExternalId": ""}, ["items.1.documentExternalId"]),
    ({"code": "x" * 201}, ["items.1.code"]),
    ({"message": "x" * 4097}, ["items.1.message"]),
    ({"fingerprint": ""}, ["items.1.fingerprint"]),
    ({"since": "yesterday"}, ["items.1.since"]),
    ({"since": "0001-01-01T00:00:00+14:00"}, ["items.1.since"]),
    ({"ignored": "yes"}, ["items.1.ignored"]),
    ({"name": "a"}, ["items.1.name"]),
]


def test_an_item_that_can_not_be_one_is_refused(reporter: Reporter) -> None:
    """By the member that is wrong; of a batch with one such item none is taken."""
    report = reporter.begin()
    for members, fields in WRONG_ITEMS:
        items = [an_item("a"), an_item("b", **members)]
        content = json.dumps({**report, "items": items}).encode()
        headers = {"Authorization": f"Bearer {reporter.api_key}", "Content-Type": "application/json"}
        answer = reporter.service.http.post("/api/v0/sources/reportSourceItems", content=content, headers=headers)
        assert (members, fields_of(answer)) == (members, fields)
    assert done(reporter.end(report))["itemCount"] == 0


def test_numbers_are_bounded(reporter: Reporter) -> None:
    """Of items in a batch, of names, of reports: one more than there may be is refused."""
    report = reporter.begin()
    many = [an_item(str(number)) for number in range(1001)]
    assert code(reporter.add(report, *many)) == (400, "invalid_request")
    for wrong in (0, -1, 2**31, 1.5, "1", True):
        assert code(reporter.end({**report, "reportNo": wrong})) == (400, "invalid_request")
    source_id = report["sourceId"]
    for names in ([], [str(number) for number in range(1001)], ["a", "a"], [""], ["x" * 4097]):
        answer = reporter.call("ignoreSourceItems", {"sourceId": source_id, "names": names})
        assert code(answer) == (400, "invalid_request")


def test_long_names_are_kept_told_apart_and_paged(reporter: Reporter) -> None:
    """Names longer than an index takes, alike at their beginning and of any characters, are each found."""
    names = [f"{'⛴' * 4000}{number}" for number in range(3)] + ["'; DROP TABLE sources; --", "%", "\\", "\x01"]
    source_id = reporter.report([an_item(name, place=name) for name in names])["sourceId"]
    assert sorted(reporter.names(source_id, page_size=1)) == sorted(names)
    assert reporter.ignore(source_id, names[1], names[5], f"{'⛴' * 4000}") == ["⛴" * 4000]
    assert set(reporter.names(source_id, ignored=True)) == {names[1], names[5]}


def test_a_report_holds_so_many_items(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch that goes over the limit is refused whole; what was sent before can be ended."""
    monkeypatch.setattr(rules, "MOST_ITEMS", 3)
    report = reporter.begin()
    done(reporter.add(report, an_item("a"), an_item("b")))
    refused = reporter.add(report, an_item("c"), an_item("d"))
    assert code(refused) == (409, "too_many_source_items")
    assert done(reporter.end(report))["itemCount"] == 2


def test_an_organization_has_so_many_sources(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, whoever reports it; those that are there are still reported, and removing one makes room."""
    monkeypatch.setattr(rules, "MOST_SOURCES", 1)
    source = reporter.report()
    other = Reporter(reporter.service, ledger=OTHER_LEDGER)
    body = {"ledger": OTHER_LEDGER, "source": "/srv/other"}
    assert code(other.call("reportSource", body)) == (409, "too_many_sources")
    reporter.report([an_item("a")])
    done(reporter.call("removeSource", {"sourceId": source["sourceId"]}))
    other.report()


def test_reports_that_never_ended_leave_room(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can see or remove a source that was never reported whole, so a day later it makes room; others stay."""
    monkeypatch.setattr(rules, "MOST_SOURCES", 1)
    reporter.begin()
    other = Reporter(reporter.service, ledger=OTHER_LEDGER)
    body = {"ledger": OTHER_LEDGER, "source": "/srv/other"}
    assert code(other.call("reportSource", body)) == (409, "too_many_sources")
    with reporter.service.owner_connection() as connection:
        connection.execute("UPDATE source_reports SET begun_at = now() - interval '25 hours'")
    source = other.report()
    with reporter.service.owner_connection() as connection:
        connection.execute("UPDATE source_reports SET begun_at = now() - interval '25 hours'")
    assert code(reporter.call("reportSource", {"ledger": LEDGER, "source": "x"})) == (409, "too_many_sources")
    assert [one["sourceId"] for one in other.sources()] == [source["sourceId"]]


def test_the_audit_log_tells_what_people_did(reporter: Reporter) -> None:
    """Who ignored and restored which items and removed the source; nothing where nothing was changed."""
    source_id = reporter.report([an_item("a"), an_item("b")])["sourceId"]
    reporter.ignore(source_id, "b", "a", "nowhere")
    reporter.ignore(source_id, "a", "b")
    reporter.ignore(source_id, "a", undo=True)
    done(reporter.call("removeSource", {"sourceId": source_id}))
    entries = done(reporter.service.call("admin/auditLog/query", {"targetId": source_id}))["entries"]
    told = [(one["action"], one["actor"]["email"], one["details"], one.get("text")) for one in entries]
    assert told == [
        ("source.remove", "ada@example.test", {"ledger": LEDGER}, None),
        ("source.restore_items", "ada@example.test", {"ledger": LEDGER, "itemCount": 1}, "a"),
        ("source.ignore_items", "ada@example.test", {"ledger": LEDGER, "itemCount": 2}, "b\na"),
    ]
    assert {one["target"]["type"] for one in entries} == {"source"}


def test_a_removed_source_ends_its_report_and_may_come_back(reporter: Reporter) -> None:
    """A run that still reports it is told 404; one that reports it anew makes another, with nothing ignored."""
    source = reporter.report([an_item("a")])
    reporter.ignore(source["sourceId"], "a")
    report = reporter.begin()
    done(reporter.call("removeSource", {"sourceId": source["sourceId"]}))
    assert code(reporter.add(report, an_item("a"))) == code(reporter.end(report)) == NOT_FOUND
    again = reporter.report([an_item("a")])
    assert again["sourceId"] != source["sourceId"]
    assert (again["itemCount"], again["ignoredCount"]) == (1, 0)
