"""Sharing conversations: each reader reads questions, and only replies that the reader could have been given today."""

from typing import Any

import httpx
import pytest

from service.domains.agents.answering.models import ModelFailure
from tests.harness.documents import uploaded
from tests.oauth.flow import v1
from tests.service.conversations import ADA, BEN, Script, Visitor, a_reply, a_visitor, in_background, passage
from tests.service.directory import another_organization, code, done

CLEO, DAN, EVE = "cleo@example.test", "dan@example.test", "eve@example.test"
NOT_FOUND = (404, "conversation_not_found")
QUESTIONS = ["When does the ferry leave?", "And the night boat?"]
NOON, MIDNIGHT = "At noon [1].", "At midnight [1]."


@pytest.fixture
def shared(visitor: Visitor, script: Script) -> str:
    """Return a conversation shared with Ben, who may read all documents, Cleo, who may read one, and Dan, without."""
    desk = visitor.desk
    night = uploaded(desk.service, "night boat", "The night boat is secret.")["documentId"]
    for email in (BEN, CLEO, DAN):
        a_visitor(desk, email)
    desk.share(ADA, BEN, CLEO)
    desk.share(ADA, BEN, document_id=night)
    ferry, boat = passage(desk.document_id), passage(night, "The night boat is secret.")
    sent = done(visitor.send(QUESTIONS[0]))
    script.end(a_reply(NOON, ferry, cited=[0]))
    visitor.finished(sent["jobId"])
    waiting = in_background(lambda: visitor.ask(QUESTIONS[1], sent["conversationId"]))
    # The reply cites a passage that Cleo may read, and was made from another, too.
    script.end(a_reply(MIDNIGHT, ferry, boat, cited=[0]), number=1)
    waiting.result()
    assert done(share(visitor, sent["conversationId"], BEN, CLEO, DAN, ADA))["sharedWith"] == [BEN, CLEO, DAN]
    return str(sent["conversationId"])


def change(visitor: Visitor, operation: str, conversation_id: str, **body: Any) -> httpx.Response:
    sent = {"conversationId": conversation_id, **body}
    return v1(visitor.desk.service, f"conversations/{operation}", visitor.token, sent)


def share(visitor: Visitor, conversation_id: str, *readers: str) -> httpx.Response:
    return change(visitor, "share", conversation_id, readers=list(readers))


def replies(visitor: Visitor, conversation_id: str) -> list[str | None]:
    """Return the replies shown; questions are always, and nothing else of a reply that isn't."""
    read = done(visitor.get(f"conversations/{conversation_id}"))
    assert [one["message"] for one in read["messages"]] == QUESTIONS
    withheld = [one for one in read["messages"] if one["status"] == "WITHHELD"]
    assert {(one["errorMessage"], *one["referencedSources"]) for one in withheld} <= {
        ("This reply uses documents that you may not read.",)
    }
    return [one.get("agentResponseText") for one in read["messages"]]


def listed(visitor: Visitor, **query: str) -> list[str]:
    found = done(visitor.get("conversations", shared="true", **query))["conversations"]
    return [one["conversationId"] for one in found]


def is_hidden(visitor: Visitor, conversation_id: str) -> bool:
    return (code(visitor.get(f"conversations/{conversation_id}")), listed(visitor)) == (NOT_FOUND, [])


def test_a_reader_reads_replies_from_documents_that_the_reader_may_read_now(visitor: Visitor, shared: str) -> None:
    desk, ben, cleo, dan = visitor.desk, *(a_visitor(visitor.desk, email) for email in (BEN, CLEO, DAN))
    assert replies(ben, shared) == [NOON, MIDNIGHT]
    assert replies(cleo, shared) == [NOON, None]
    assert replies(dan, shared) == [None, None]
    assert [listed(one) for one in (visitor, ben, cleo, dan)] == [[], [shared], [shared], [shared]]
    assert [listed(one, query="midnight") for one in (ben, cleo, dan)] == [[shared], [], []]
    assert done(ben.get("conversations"))["conversations"] == []
    read = done(ben.get(f"conversations/{shared}"))["conversation"]
    assert (read["sharedBy"], read["agentName"], "sharedWith" in read) == ("Ada Lovelace", "Harbour desk", False)
    own = done(visitor.get("conversations"))["conversations"][0]
    assert ("sharedBy" in own, own["sharedWith"]) == (False, [BEN, CLEO, DAN])
    desk.share(BEN)
    assert replies(ben, shared) == [NOON, MIDNIGHT]  # whatever its person may read by now
    desk.share(ADA)
    assert replies(ben, shared) == [None, None]
    desk.share(ADA, BEN)
    desk.deploy(BEN)
    assert (is_hidden(cleo, shared), replies(ben, shared)) == (True, [NOON, MIDNIGHT])
    desk.delete()
    assert is_hidden(ben, shared)


def test_a_reader_only_reads_and_others_not_even_that(visitor: Visitor, script: Script, shared: str) -> None:
    desk, ben, eve = visitor.desk, a_visitor(visitor.desk, BEN), a_visitor(visitor.desk, EVE)
    for one in (ben, eve):
        assert code(change(one, "rename", shared, title="Mine")) == NOT_FOUND
        assert code(change(one, "delete", shared)) == NOT_FOUND
        assert code(share(one, shared, EVE)) == NOT_FOUND
        assert code(one.send("And then?", shared)) == NOT_FOUND
    job = done(visitor.get(f"conversations/{shared}"))["messages"][0]["messageId"]
    assert code(ben.get("agents/fetchAgentResponse", jobId=job)) == (404, "job_not_found")
    verdict = {"agentId": desk.agent_id, "messageId": job, "messageFeedback": {"feedback": "POSITIVE"}}
    judged = [v1(desk.service, "agents/provideMessageFeedback", one.token, verdict) for one in (ben, visitor)]
    assert [code(judged[0]), judged[1].status_code] == [(404, "message_not_found"), 200]
    failed = done(visitor.send("Why?", shared))
    script.end(ModelFailure("The model is away."), number=2)
    visitor.finished(failed["jobId"])
    seen = [done(one.get(f"conversations/{shared}"))["messages"] for one in (visitor, ben)]
    assert [one[0].get("feedback") for one in seen] == ["POSITIVE", None]
    assert [one[2].get("errorMessage") for one in seen] == ["The model is away.", None]
    assert is_hidden(eve, shared)
    assert is_hidden(a_visitor(desk, BEN, scope="api:agent:message:01890000-0000-7000-8000-000000000000"), shared)


def test_only_active_people_of_the_organization_become_readers(visitor: Visitor, shared: str) -> None:
    another_organization(visitor.desk.service, admin_email="zoe@other.test")
    done(visitor.desk.service.call("admin/users/upsert", {"users": [{"email": CLEO, "active": False}]}))
    for email in ("zoe@other.test", "nobody@example.test", CLEO):
        assert code(share(visitor, shared, BEN, email)) == (400, "unknown_principal")
    own = done(visitor.get(f"conversations/{shared}"))["conversation"]
    assert own["sharedWith"] == [BEN, DAN]


@pytest.mark.parametrize("end", ["taken back", "deleted", "left"])
def test_sharing_ends(visitor: Visitor, shared: str, end: str) -> None:
    desk, ben, cleo = visitor.desk, a_visitor(visitor.desk, BEN), a_visitor(visitor.desk, CLEO)
    if end == "taken back":
        assert done(share(visitor, shared, CLEO, CLEO))["sharedWith"] == [CLEO]
        assert (is_hidden(ben, shared), replies(cleo, shared)) == (True, [NOON, None])
        for _ in range(2):
            assert "sharedWith" not in done(share(visitor, shared))
        people = {one["email"]: one["id"] for one in done(desk.service.call("admin/users/list", {}))["users"]}
        noted = [entry["details"] for entry in desk.entries("conversation.share")]
        assert noted == [
            {"conversationId": shared, "added": sorted(people[one] for one in added), "removed": sorted(removed)}
            for added, removed in (((), [people[CLEO]]), ((), [people[BEN], people[DAN]]), ((BEN, CLEO, DAN), ()))
        ]
    elif end == "deleted":
        done(change(visitor, "delete", shared))
        assert desk.service.execute("SELECT * FROM conversation_readers WHERE conversation_id = %s", [shared]) == []
    else:
        done(desk.service.call("admin/users/upsert", {"users": [{"email": ADA, "active": False}]}))
    assert [is_hidden(one, shared) for one in (ben, cleo)] == [True, True]
