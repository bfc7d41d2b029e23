"""The question log: questions to agents, with replies as far as the admin may read them, and statistics."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from service.domains.agents.answering.models import ModelFailure
from service.domains.agents.conversations.question_log import queries
from service.domains.oversight.audit_log import erasure
from service.platform.identifiers import uuid7
from tests.harness.cases import statement
from tests.harness.services import RunningService
from tests.service import directory
from tests.service.conversations import ADA, BEN, FERRY, Desk, Script, a_desk, a_reply, an_agent, in_background, passage
from tests.service.test_messages_v0 import answered
from tests.service.test_search_log import statements
from tests.service.test_text_erasure import erase

CLEO, DORA = "cleo@example.test", "dora@example.test"
QUERY, SUMMARIZE, RANK = (f"admin/questionLog/{name}" for name in ("query", "summarize", "rank"))
ANSWERED, UNANSWERABLE = "When does the ferry to Northlight leave?", "What does a zeppelin pilot earn in Peru?"
# A Monday.
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
Question = dict


def asked(service: RunningService, page_size: int = 1000, api_key: str | None = None, **body) -> list[Question]:
    return directory.walk(service, QUERY, body, page_size=page_size, api_key=api_key)


def messages(found: list[Question]) -> list[str | None]:
    return [one.get("message") for one in found]


def judge(desk: Desk, message_id: str, verdict: str, **words: str) -> None:
    body = {"agentId": desk.agent_id, "messageId": message_id, "messageFeedback": {"feedback": verdict, **words}}
    directory.done(desk.service.call("copilots/provideMessageFeedback", body))


def ask_thrice(desk: Desk) -> Desk:
    for email, name in ((ADA, "Ada"), (BEN, "Ben")):
        directory.a_user(desk.service, email, name=name)
    desk.ask(ANSWERED, userEmail=ADA)
    desk.ask(UNANSWERABLE, userEmail=ADA)
    desk.ask("Do dogs travel free?", userEmail=BEN)
    return desk


@pytest.fixture
def people(desk: Desk) -> Desk:
    return ask_thrice(desk)


@pytest.fixture(scope="module")
def house(module_service: RunningService) -> Desk:
    return ask_thrice(a_desk(module_service))


def test_a_question_is_logged_with_who_asked_and_what_came_of_it(house: Desk) -> None:
    dogs, zeppelin, ferry = asked(house.service)
    assert messages([dogs, zeppelin, ferry]) == ["Do dogs travel free?", UNANSWERABLE, ANSWERED]
    assert [one["outcome"] for one in (dogs, zeppelin, ferry)] == ["ANSWERED", "UNANSWERED", "ANSWERED"]
    assert [one["actor"]["email"] for one in (dogs, zeppelin, ferry)] == [BEN, ADA, ADA]
    assert ferry["actor"]["name"] == "Ada"
    assert (ferry["agentId"], ferry["agentName"]) == (house.agent_id, "Harbour desk")
    assert "noon" in ferry["agentResponseText"]
    assert [one["id"] for one in ferry["referencedSources"]] == [house.document_id]
    assert ferry["referencedSources"][0]["quote"] in FERRY
    assert zeppelin["referencedSources"] == []
    assert "Nothing that you may read here answers this" in zeppelin["agentResponseText"]
    assert not any(one["withheld"] for one in (dogs, zeppelin, ferry))
    expected = {"messageId", "conversationId", "at", "agentId", "agentName", "actor", "message", "outcome", "withheld"}
    assert zeppelin.keys() == expected | {"agentResponseText", "referencedSources", "warnings"}


def test_a_reply_of_another_model_that_cites_nothing_is_unanswered(desk: Desk, script: Script) -> None:
    answered(script, lambda: desk.ask("One"), a_reply("I don't know.", passage(desk.document_id)))
    answered(script, lambda: desk.ask("Two"), a_reply("Noon [1]", passage(desk.document_id), cited=[0]), number=1)
    assert [one["outcome"] for one in asked(desk.service)] == ["ANSWERED", "UNANSWERED"]


def test_a_question_that_failed_and_was_sent_again_is_one(desk: Desk, script: Script) -> None:
    headers = {"Idempotency-Key": "once"}
    first = in_background(lambda: desk.send("One", headers=headers))
    script.tell("Perhaps", passage(desk.document_id))
    [running] = asked(desk.service)
    assert (running["outcome"], running.get("agentResponseText")) == ("RUNNING", None)
    script.end(ModelFailure("The model is overloaded.", code="model_rate_limited"))
    first.result()
    [failed] = asked(desk.service, outcome="FAILED")
    assert (failed["messageId"], failed["errorMessage"]) == (running["messageId"], "The model is overloaded.")
    assert "agentResponseText" not in failed
    second = in_background(lambda: desk.ask("One", headers=headers))
    script.scene(1)
    assert [one["outcome"] for one in asked(desk.service)] == ["RUNNING"]
    script.end(a_reply("Noon [1]", passage(desk.document_id), cited=[0]), number=1)
    second.result()
    [answered] = asked(desk.service)
    assert (answered["outcome"], answered["agentResponseText"]) == ("ANSWERED", "Noon [1]")


def test_a_reply_is_shown_to_an_admin_who_may_read_what_it_rests_on(people: Desk) -> None:
    key = people.service.new_user(CLEO, is_admin=True)
    people.share(ADA)
    for verdict in ("POSITIVE", "NEGATIVE"):
        judge(people, asked(people.service)[-1]["messageId"], verdict)
    answer = people.service.call(QUERY, {"pageSize": 100}, api_key=key)
    withheld = directory.done(answer)["questions"]
    assert [one["withheld"] for one in withheld] == [True, False, True]
    assert messages(withheld) == ["Do dogs travel free?", UNANSWERABLE, ANSWERED]
    assert [one["outcome"] for one in withheld] == ["ANSWERED", "UNANSWERED", "ANSWERED"]
    for one in (withheld[0], withheld[2]):
        assert "agentResponseText" not in one
        assert one["referencedSources"] == one["warnings"] == []
    for word in ("noon", "free of charge", "Ferries", people.document_id):
        assert word not in answer.text
    assert [one["withheld"] for one in asked(people.service)] == [False, False, False]
    people.share(ADA, CLEO)
    assert asked(people.service, api_key=key) == asked(people.service)
    people.share(ADA)
    assert [one["withheld"] for one in asked(people.service, api_key=key)] == [True, False, True]


def test_questions_stay_when_their_agent_and_documents_go(people: Desk) -> None:
    directory.done(people.service.call("catalog/deleteDocument", {"documentId": people.document_id}))
    assert [one["withheld"] for one in asked(people.service)] == [True, False, True]
    people.delete()
    assert [one["agentName"] for one in asked(people.service, agentId=people.agent_id)] == ["Harbour desk"] * 3


def test_the_log_is_narrowed(people: Desk) -> None:
    service = people.service
    other = a_desk(service, "Canteen desk", text="The canteen is closed on Fridays.")
    other.ask("When is the canteen closed?", userEmail=BEN)
    canteen, dogs, zeppelin, ferry = asked(service)
    assert asked(service, agentId=other.agent_id) == [canteen]
    assert asked(service, agentId=people.agent_id) == [dogs, zeppelin, ferry]
    assert asked(service, outcome="UNANSWERED") == [zeppelin]
    assert asked(service, outcome="UNANSWERED", agentId=other.agent_id) == []
    assert asked(service, query="ZEPPELIN") == [zeppelin]
    assert asked(service, query="%") == asked(service, query="ferry_") == []
    assert asked(service, to=dogs["at"]) == [zeppelin, ferry]
    assert asked(service, **{"from": dogs["at"]}) == [canteen, dogs]
    assert asked(service, conversationId=dogs["conversationId"]) == [dogs]
    assert asked(service, ids=[ferry["messageId"], str(uuid7())]) == [ferry]
    assert asked(service, agentId=str(uuid7())) == asked(service, groupId=str(uuid7())) == []
    message_id = ferry["messageId"]
    judge(people, message_id, "NEGATIVE", descriptiveFeedback="Too long.", suggestedAnswer="Noon.")
    assert asked(service, feedback="POSITIVE") == []
    [judged] = asked(service, feedback="NEGATIVE")
    assert (judged["messageId"], judged["feedback"]) == (message_id, "NEGATIVE")
    assert judged["feedbackText"] == "Too long.\n\nSuggested answer: Noon."
    judge(people, message_id, "POSITIVE")
    [judged] = asked(service, feedback="POSITIVE")
    assert "feedbackText" not in judged
    judge(people, message_id, "NEGATIVE", descriptiveFeedback="Still too long.")
    assert asked(service)[-1]["feedbackText"] == "Still too long."


def test_a_group_stands_for_everybody_in_it(house: Desk) -> None:
    service = house.service
    inner = directory.a_group(service, "Inner", directory.user(ADA))
    middle = directory.a_group(service, "Middle", directory.group(inner))
    outer = directory.a_group(service, "Outer", directory.group(middle), directory.user(BEN))
    # A cycle.
    directory.a_group(service, "Inner", directory.user(ADA), directory.group(outer))
    crew = directory.a_group(service, "Crew", directory.user(BEN))
    empty = directory.a_group(service, "Empty")
    assert len(asked(service, groupId=outer["id"])) == 3
    assert messages(asked(service, groupId=crew["id"])) == ["Do dogs travel free?"]
    assert asked(service, groupId=empty["id"]) == []
    directory.done(
        service.call("admin/groups/addMembers", {"groupId": empty["id"], "members": [directory.group(inner)]})
    )
    directory.done(
        service.call("admin/groups/removeMembers", {"groupId": inner["id"], "members": [directory.group(outer)]})
    )
    assert messages(asked(service, groupId=empty["id"])) == [UNANSWERABLE, ANSWERED]


def test_what_was_erased_is_shown_as_erased(own_service: RunningService) -> None:
    people = ask_thrice(a_desk(own_service))
    judge(people, asked(own_service)[-1]["messageId"], "NEGATIVE", descriptiveFeedback="Too long.")
    before = asked(own_service)
    assert before[-1].pop("feedbackText") == "Too long."
    erase(own_service, own_service.admin_email)
    assert asked(own_service) == before
    erase(own_service, ADA)
    after = asked(own_service)
    assert after[0] == before[0]
    words = {"message", "agentResponseText"}
    empty: dict[str, list[str]] = {"referencedSources": [], "warnings": []}
    assert after[1:] == [
        {name: value for name, value in one.items() if name not in words} | empty for one in before[1:]
    ]
    assert asked(own_service, query="ferry") == []
    assert totals(own_service) == (3, 1, 0, 0, 1, 2)
    moment = datetime.now(UTC) + timedelta(minutes=1)
    assert own_service.run(erasure.erase_before(own_service.runtime.database, moment=moment)) > 0
    assert messages(asked(own_service)) == [None, None, None]


def test_a_question_that_was_erased_while_it_ran_has_failed(desk: Desk, script: Script) -> None:
    directory.a_user(desk.service, DORA)
    waiting = in_background(lambda: desk.send("One", userEmail=DORA))
    script.scene()
    erase(desk.service, DORA)
    assert [one["outcome"] for one in asked(desk.service)] == ["FAILED"]
    script.end(a_reply("Noon"))
    assert waiting.result().status_code != 200
    assert [one["outcome"] for one in asked(desk.service)] == ["FAILED"]


def test_another_organization_finds_and_counts_none_by_any_filter(house: Desk) -> None:
    service, stranger = house.service, directory.another_organization(house.service)
    crew = {"groupId": directory.a_group(service, "Ours", directory.user(ADA))["id"]}
    ids = [one["messageId"] for one in asked(service)]
    conversation = {"conversationId": asked(service)[0]["conversationId"]}
    for filters in ({}, {"agentId": house.agent_id}, crew):
        assert totals(service, api_key=stranger, **filters) == (0, 0, 0, 0, 0, 0)
        assert ranked(service, "AGENT", api_key=stranger, **filters) == []
        assert ranked(service, "GROUP", api_key=stranger, **filters) == []
    for body in ({"ids": ids}, {"agentId": house.agent_id}, crew, {"query": "f"}, conversation):
        assert asked(service, api_key=stranger, **body) == []


# The conversations and turns of questions are there where the questions have words.
INSERT = statement("many_questions")
USUAL = {"asker": ADA, "outcome": "ANSWERED", "feedback": None, "words": None, "count": 1, "step": timedelta(0)}


def insert(desk: Desk, at: datetime, **values) -> None:
    where = {"organization": directory.organization_id(desk.service), "agent": desk.agent_id, "at": at}
    desk.service.execute(INSERT, USUAL | where | values)


def test_every_question_is_on_one_page_of_a_walk(people: Desk) -> None:
    service = people.service
    insert(people, MONDAY, count=100)
    before = asked(service)
    assert len(before) == 103
    first = directory.done(service.call(QUERY, {"pageSize": 30}))
    people.ask("Later?", userEmail=BEN)
    second = directory.done(service.call(QUERY, {"pageSize": 30, "pageToken": first["nextPageToken"]}))
    assert first["questions"] + second["questions"] == before[:60]
    assert asked(service, page_size=7)[1:] == before
    other = {"pageSize": 7, "pageToken": first["nextPageToken"], "outcome": "FAILED"}
    assert directory.code(service.call(QUERY, other)) == (400, "invalid_page_token")


def test_a_query_by_words_looks_through_a_bounded_number(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.a_user(desk.service, ADA)
    insert(desk, MONDAY, words="a needle", step=timedelta(minutes=1))
    insert(desk, MONDAY - timedelta(hours=1), words="hay", count=25, step=timedelta(minutes=1))
    insert(desk, MONDAY - timedelta(hours=2), words="another Needle", count=3, step=timedelta(minutes=1))
    monkeypatch.setattr(queries.wire, "MOST_LOOKED_THROUGH", 10)
    first = directory.done(desk.service.call(QUERY, {"query": "needle", "pageSize": 2}))
    assert messages(first["questions"]) == ["a needle"]
    second = directory.done(
        desk.service.call(QUERY, {"query": "needle", "pageSize": 2, "pageToken": first["nextPageToken"]})
    )
    assert second["questions"] == []
    assert messages(asked(desk.service, page_size=2, query="needle")) == ["a needle", *["another Needle"] * 3]


def test_a_page_by_words_is_of_one_moment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.a_user(desk.service, ADA)
    insert(desk, MONDAY, words="a needle", count=3, step=timedelta(minutes=1))
    monkeypatch.setattr(queries.wire, "MOST_LOOKED_THROUGH", 2)
    find = queries.find_last_searched

    async def find_later(*arguments, **options):
        await asyncio.to_thread(insert, desk, MONDAY + timedelta(hours=1), words="a later needle")
        return await find(*arguments, **options)

    monkeypatch.setattr(queries, "find_last_searched", find_later)
    first = directory.done(desk.service.call(QUERY, {"query": "needle"}))
    monkeypatch.setattr(queries, "find_last_searched", find)
    rest = directory.done(desk.service.call(QUERY, {"query": "needle", "pageToken": first["nextPageToken"]}))
    assert messages(first["questions"]) == ["a needle"] * 2
    assert messages(rest["questions"]) == ["a needle"]


def numbers(row: dict) -> tuple[int, ...]:
    return tuple(row[name] for name in ("questions", "unanswered", "failed", "thumbsUp", "thumbsDown", "askers"))


def summary(service: RunningService, since: datetime, until: datetime, bucket: str = "day", **body) -> Question:
    key = body.pop("api_key", None)
    request = {"from": since.isoformat(), "to": until.isoformat(), "bucket": bucket, **body}
    return directory.done(service.call(SUMMARIZE, request, api_key=key))


def totals(service: RunningService, **body) -> tuple[int, ...]:
    now = datetime.now(UTC) + timedelta(minutes=1)
    found = summary(service, now - timedelta(days=7), now, **body)
    sums = [sum(part) for part in zip(*(numbers(one) for one in found["buckets"]), strict=True)]
    return (*sums[:-1], found["askers"])


def ranked(service: RunningService, by: str, **body) -> list[tuple]:
    key = body.pop("api_key", None)
    request = {"from": "2020-01-01T00:00:00Z", "to": "2030-01-01T00:00:00Z", "by": by, **body}
    return [(one["name"], *numbers(one)) for one in directory.done(service.call(RANK, request, api_key=key))["ranking"]]


@pytest.fixture(scope="module")
def logged(shared_service: RunningService) -> Iterator[Desk]:
    """A log of four days: two people ask two agents. A group has both, in a cycle, and two groups have Ada."""
    with shared_service.new_organization() as service:
        for email in (ADA, BEN):
            directory.a_user(service, email)
        desk, other = (Desk(service, an_agent(service, name=name)["agentId"], "", "") for name in ("Desk", "Other"))
        insert(desk, MONDAY, feedback="POSITIVE")
        insert(desk, MONDAY + timedelta(hours=5), outcome="UNANSWERED", feedback="NEGATIVE", asker=BEN)
        insert(desk, MONDAY + timedelta(hours=24) - timedelta(microseconds=1), outcome="UNANSWERED", asker=BEN)
        insert(other, MONDAY + timedelta(days=2), outcome="FAILED")
        insert(other, MONDAY + timedelta(days=2, hours=3), outcome="RUNNING")
        insert(desk, MONDAY + timedelta(days=4))
        insert(desk, MONDAY - timedelta(microseconds=1), asker=BEN)
        inner = directory.a_group(service, "Inner", directory.user(BEN))
        outer = directory.a_group(service, "Outer", directory.group(inner), directory.user(BEN), directory.user(ADA))
        directory.a_group(service, "Inner", directory.user(BEN), directory.group(outer))
        directory.a_group(service, "Deck", directory.group(directory.a_group(service, "Crew", directory.user(ADA))))
        directory.a_group(service, "Silent")
        yield desk


def test_every_day_is_counted_and_the_numbers_are_narrowed(logged: Desk) -> None:
    found = summary(logged.service, MONDAY, MONDAY + timedelta(days=4))
    assert [one["from"] for one in found["buckets"]] == [f"2026-03-0{day}T00:00:00Z" for day in (2, 3, 4, 5)]
    nothing = (0, 0, 0, 0, 0, 0)
    assert [numbers(one) for one in found["buckets"]] == [(3, 2, 0, 1, 1, 2), nothing, (2, 0, 1, 0, 0, 1), nothing]
    assert found["askers"] == 2
    weeks = summary(logged.service, MONDAY - timedelta(days=1), MONDAY + timedelta(days=5), "week")
    assert [(one["from"][:10], numbers(one)) for one in weeks["buckets"]] == [
        ("2026-02-23", (1, 0, 0, 0, 0, 1)),
        ("2026-03-02", (6, 2, 1, 1, 1, 2)),
    ]
    service, until = logged.service, MONDAY + timedelta(days=4)
    deck = directory.done(service.call("admin/groups/list", {"query": "Deck"}))["groups"][0]["id"]
    of_agent = summary(service, MONDAY, until, agentId=logged.agent_id)
    assert [one["questions"] for one in of_agent["buckets"]] == [3, 0, 0, 0]
    of_group = summary(service, MONDAY, until, groupId=deck)
    assert [numbers(one) for one in of_group["buckets"]] == [(1, 0, 0, 1, 0, 1), nothing, (2, 0, 1, 0, 0, 1), nothing]
    assert of_group["askers"] == 1
    assert summary(service, MONDAY, until, groupId=deck, agentId=str(uuid7()))["askers"] == 0


def test_agents_and_groups_are_ranked(logged: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    service = logged.service
    assert ranked(service, "AGENT") == [("Desk", 5, 2, 0, 1, 1, 2), ("Other", 2, 0, 1, 0, 0, 1)]
    groups = ranked(service, "GROUP")
    everybody, ada = (7, 2, 1, 1, 1, 2), (4, 0, 1, 1, 0, 1)
    assert sorted(groups[:2]) == [("Inner", *everybody), ("Outer", *everybody)]
    assert sorted(groups[2:]) == [("Crew", *ada), ("Deck", *ada)]
    assert sorted(ranked(service, "GROUP", agentId=logged.agent_id)[2:]) == [
        (name, 2, 0, 0, 1, 0, 1) for name in ("Crew", "Deck")
    ]
    refused = service.call(RANK, {"from": MONDAY.isoformat(), "to": MONDAY.isoformat(), "by": "AGENT"})
    assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (400, "to")
    monkeypatch.setattr(queries, "MOST_RANKED", 1)
    assert [one[0] for one in ranked(service, "AGENT")] == ["Desk"]


def test_pages_and_numbers_are_read_by_an_index(own_service: RunningService) -> None:
    """With any number of questions, and rare matches; the number of statements is constant."""
    service, now = own_service, datetime.now(UTC)
    directory.a_user(service, ADA)
    directory.a_group(service, "Crew", directory.user(ADA))
    desk, other = (Desk(service, an_agent(service)["agentId"], "", "") for _ in range(2))
    insert(other, now - timedelta(days=1), words="hay", count=30_000, step=timedelta(minutes=1))
    insert(desk, now - timedelta(days=300), outcome="UNANSWERED", feedback="NEGATIVE", count=5)
    span = {"from": (now - timedelta(days=2)).isoformat(), "to": now.isoformat()}
    expected: list[tuple[str, dict, str]] = [
        (QUERY, {"pageSize": 500}, "ix_questions_at"),
        (QUERY, {"pageSize": 500, "agentId": desk.agent_id}, "ix_questions_agent"),
        (QUERY, {"pageSize": 500, "outcome": "UNANSWERED"}, "ix_questions_outcome"),
        (QUERY, {"pageSize": 500, "feedback": "NEGATIVE"}, "ix_questions_feedback"),
        (QUERY, {"pageSize": 500, "query": "zeppelin"}, "ix_questions_at"),
        (SUMMARIZE, {**span, "bucket": "day"}, ""),
        (RANK, {**span, "by": "AGENT"}, ""),
        (RANK, {**span, "by": "GROUP"}, ""),
    ]
    with service.owner_connection() as connection:
        connection.execute(
            "ANALYZE questions, turns, conversations, principals, agents, group_members, audit_entries, free_texts"
        )
        for operation, body, index in expected:
            with statements(service) as made:
                directory.done(service.call(operation, body))
            assert len(made) < 12
            reads = [one for one in made if "FROM questions" in one[0]]
            assert reads
            for statement, parameters in reads:
                plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {statement}", parameters))
                assert index in plan, plan
                assert "Seq Scan on questions" not in plan, plan
                assert "Seq Scan on turns" not in plan, plan
