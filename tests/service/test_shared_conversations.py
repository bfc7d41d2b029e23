"""Sharing conversations: each reader reads questions, and only replies that the reader could have been given today."""

from typing import Any

import httpx
import pytest

from tests.harness.documents import uploaded
from tests.oauth.flow import v1
from tests.service.conversations import ADA, BEN, Script, Visitor, a_reply, a_visitor, in_background, passage
from tests.service.directory import another_organization, code, done

CLEO, DAN = "cleo@example.test", "dan@example.test"
NOT_FOUND = (404, "conversation_not_found")
QUESTIONS = ["When does the ferry leave?", "And the night boat?"]
WITHHELD = "This reply comes from an agent or from documents that you may not use or read."


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
    script.end(a_reply("At noon [1].", ferry, cited=[0]))
    visitor.finished(sent["jobId"])
    waiting = in_background(lambda: visitor.ask(QUESTIONS[1], sent["conversationId"]))
    # The reply cites a passage that Cleo may read, and was made from another, too.
    script.end(a_reply("At midnight [1].", ferry, boat, cited=[0]), number=1)
    waiting.result()
    assert done(share(visitor, sent["conversationId"], BEN, CLEO, DAN, ADA))["sharedWith"] == [BEN, CLEO, DAN]
    return str(sent["conversationId"])


def share(visitor: Visitor, conversation_id: str, *readers: str) -> httpx.Response:
    return change(visitor, "share", conversation_id, readers=list(readers))


def change(visitor: Visitor, operation: str, conversation_id: str, **body: Any) -> httpx.Response:
    sent = {"conversationId": conversation_id, **body}
    return v1(visitor.desk.service, f"conversations/{operation}", visitor.token, sent)


def replies(visitor: Visitor, conversation_id: str) -> list[str | None]:
    """Return the replies shown; questions are always, and nothing else of a reply that isn't."""
    read = done(visitor.get(f"conversations/{conversation_id}"))
    assert [one["message"] for one in read["messages"]] == QUESTIONS
    withheld = [one for one in read["messages"] if one["status"] == "WITHHELD"]
    assert all((one["errorMessage"], one["referencedSources"]) == (WITHHELD, []) for one in withheld)
    return [one.get("agentResponseText") for one in read["messages"]]


def listed(visitor: Visitor) -> list[str]:
    return [one["conversationId"] for one in done(visitor.get("conversations/shared"))["conversations"]]


def test_a_reader_reads_replies_from_what_the_reader_may_use_and_read_now(visitor: Visitor, shared: str) -> None:
    desk, ben, cleo, dan = visitor.desk, *(a_visitor(visitor.desk, email) for email in (BEN, CLEO, DAN))
    assert replies(ben, shared) == ["At noon [1].", "At midnight [1]."]
    assert replies(cleo, shared) == ["At noon [1].", None]
    assert replies(dan, shared) == [None, None]
    assert [listed(one) for one in (visitor, ben, cleo, dan)] == [[], [shared], [shared], [shared]]
    assert done(ben.get("conversations"))["conversations"] == []
    read = done(ben.get(f"conversations/{shared}"))["conversation"]
    assert (read["sharedBy"], read["agentName"]) == ("Ada Lovelace", "Harbour desk")
    assert "sharedWith" not in read
    own = done(visitor.get(f"conversations/{shared}"))["conversation"]
    assert ("sharedBy" in own, own["sharedWith"]) == (False, [BEN, CLEO, DAN])
    desk.share(ADA)
    assert replies(ben, shared) == [None, None]
    desk.share(ADA, BEN)
    desk.deploy(ADA)
    assert replies(ben, shared) == [None, None]
    assert done(ben.get("conversations/shared"))["conversations"][0]["agentName"] == ""
    desk.deploy(ADA, BEN)
    assert replies(ben, shared) == ["At noon [1].", "At midnight [1]."]


def test_a_reader_only_reads_and_others_not_even_that(visitor: Visitor, shared: str) -> None:
    desk, ben, eve = visitor.desk, a_visitor(visitor.desk, BEN), a_visitor(visitor.desk, "eve@example.test")
    for one in (ben, eve):
        assert code(change(one, "rename", shared, title="Mine")) == NOT_FOUND
        assert code(change(one, "delete", shared)) == NOT_FOUND
        assert code(share(one, shared, "eve@example.test")) == NOT_FOUND
        assert code(one.send("And then?", shared)) == NOT_FOUND
    job = done(visitor.get(f"conversations/{shared}"))["messages"][0]["messageId"]
    assert code(ben.get("agents/fetchAgentResponse", jobId=job)) == (404, "job_not_found")
    assert (code(eve.get(f"conversations/{shared}")), listed(eve)) == (NOT_FOUND, [])
    one_agent = a_visitor(desk, BEN, scope="api:agent:message:01890000-0000-7000-8000-000000000000")
    assert (code(one_agent.get(f"conversations/{shared}")), listed(one_agent)) == (NOT_FOUND, [])
    another_organization(desk.service, admin_email="zoe@other.test")
    assert code(share(visitor, shared, BEN, "zoe@other.test")) == (400, "unknown_principal")


def test_a_verdict_stays_with_its_person(visitor: Visitor, shared: str) -> None:
    job = done(visitor.get(f"conversations/{shared}"))["messages"][0]["messageId"]
    verdict = {"agentId": visitor.desk.agent_id, "messageId": job, "messageFeedback": {"feedback": "POSITIVE"}}
    done(v1(visitor.desk.service, "agents/provideMessageFeedback", visitor.token, verdict))
    seen = [done(one.get(f"conversations/{shared}")) for one in (visitor, a_visitor(visitor.desk, BEN))]
    assert [one["messages"][0].get("feedback") for one in seen] == ["POSITIVE", None]


@pytest.mark.parametrize("end", ["taken back", "deleted", "left"])
def test_sharing_ends(visitor: Visitor, shared: str, end: str) -> None:
    desk, ben, cleo = visitor.desk, a_visitor(visitor.desk, BEN), a_visitor(visitor.desk, CLEO)
    if end == "taken back":
        assert done(share(visitor, shared, CLEO, CLEO))["sharedWith"] == [CLEO]
        assert (code(ben.get(f"conversations/{shared}")), listed(ben)) == (NOT_FOUND, [])
        assert replies(cleo, shared) == ["At noon [1].", None]
        assert "sharedWith" not in done(share(visitor, shared))
        assert "sharedWith" not in done(share(visitor, shared))
        people = {one["email"]: one["id"] for one in done(desk.service.call("admin/users/list", {}))["users"]}
        changes = [entry["details"] for entry in desk.entries("conversation.share")]
        assert changes == [
            {"conversationId": shared, "added": added, "removed": removed}
            for added, removed in (
                ([], [people[CLEO]]),
                ([], sorted([people[BEN], people[DAN]])),
                (sorted(people[email] for email in (BEN, CLEO, DAN)), []),
            )
        ]
    elif end == "deleted":
        done(change(visitor, "delete", shared))
        assert desk.service.execute("SELECT * FROM conversation_readers WHERE conversation_id = %s", [shared]) == []
    else:
        done(desk.service.call("admin/users/upsert", {"users": [{"email": ADA, "active": False}]}))
    for one in (ben, cleo):
        assert (code(one.get(f"conversations/{shared}")), listed(one)) == (NOT_FOUND, [])
