"""search/submitSearchFeedback: on a search of one's own or by an admin, on what it found, for members and others."""

from typing import Any

import httpx
import pytest

from service.operate.audit_log import erasure
from service.platform.identifiers import uuid7
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded
from tests.harness.services import RunningService
from tests.service.directory import a_key, a_user, code, done, walk
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

ADA, BEN, CARL = "ada@example.test", "ben@example.test", "carl@example.test"
VISITOR = "visitor@elsewhere.test"


@pytest.fixture
def library(service: RunningService) -> RunningService:
    """A service with three people and two documents that everybody may read."""
    for email in (ADA, BEN, CARL):
        a_user(service, email)
    uploaded(service, "ferry", "Dogs may travel on the ferry.", file_name="a.md", internalPublic="true")
    uploaded(service, "gate", "The gate opens at nine.", file_name="a.md", internalPublic="true")
    return service


def key_of(service: RunningService, email: str, **body: Any) -> str:
    """A new key that this person owns."""
    return a_key(service, ownerEmail=email, **body)["apiKey"]


def searched(service: RunningService, query: str = "dogs", *, api_key: str | None = None, **body: Any) -> Any:
    """The answer of a search of the catalog for one document, by words."""
    options = {"mode": "LEXICAL", "maxResults": 1}
    body = {"searchQuery": query, "searchOptions": options, **body}
    return done(service.call("search/searchDocumentCatalog", body, api_key=api_key))


def judge(service: RunningService, search_id: str, *, api_key: str | None = None, **body: Any) -> httpx.Response:
    """Give feedback on a search."""
    body = {"searchId": search_id, "feedback": "THUMBS_UP", **body}
    return service.call("search/submitSearchFeedback", body, api_key=api_key)


def entries(service: RunningService) -> list[dict[str, Any]]:
    """The audit log's entries of feedback, newest first."""
    return walk(service, "admin/auditLog/query", {"action": "search.feedback"}, page_size=100)


def thumbs(service: RunningService, search_id: str) -> str | None:
    """The feedback that the search log has of a search."""
    [one] = walk(service, "admin/searchLog/query", {"ids": [search_id]}, page_size=100)
    return one.get("feedback")


def told(response: httpx.Response, *unlike: str) -> str:
    """The text of a 404 without its request id, and without the ids that were asked for."""
    assert code(response) == (404, "search_not_found")
    text = response.text
    for each in (response.headers["X-Request-Id"], *unlike):
        text = text.replace(each, "…")
    return text


def test_feedback_is_for_searches_of_ones_own(library: RunningService) -> None:
    """With any key of whom the search was made by or for, and by an admin; for others it is like one there is not."""
    unknown = str(uuid7())
    keys = {email: key_of(library, email) for email in (ADA, BEN)}
    by_ada = searched(library, api_key=keys[ADA])["searchId"]
    for_ada = searched(library, userEmail=ADA)["searchId"]
    by_admin = searched(library)["searchId"]
    nothing = told(judge(library, unknown, api_key=keys[BEN]), unknown)
    for search_id in (by_ada, for_ada, by_admin):
        assert told(judge(library, search_id, api_key=keys[BEN]), search_id) == nothing
        assert thumbs(library, search_id) is None
    assert told(judge(library, by_admin, api_key=keys[ADA]), by_admin) == nothing
    assert entries(library) == []
    for search_id in (by_ada, for_ada):
        done(judge(library, search_id, api_key=keys[ADA]))
        done(judge(library, search_id, api_key=key_of(library, ADA)))
        assert thumbs(library, search_id) == "THUMBS_UP"
    done(judge(library, by_ada, feedback="THUMBS_DOWN"))
    assert thumbs(library, by_ada) == "THUMBS_DOWN"


def test_a_service_account_judges_its_own_searches(library: RunningService) -> None:
    """By any token of its own; not those of people or of another account."""
    enable_service_accounts(library)
    one, other = an_account(library, "One"), an_account(library, "Other")
    tokens = [a_token(library, of, "catalog:read")["token"] for of in (one, one, other)]
    search_id = searched(library, api_key=tokens[0])["searchId"]
    done(judge(library, search_id, api_key=tokens[1]))
    told(judge(library, search_id, api_key=tokens[2]))
    told(judge(library, searched(library)["searchId"], api_key=tokens[0]))
    refused = judge(library, search_id, api_key=tokens[0], userEmail=VISITOR)
    assert code(refused) == (400, "service_account_acts_as_itself")


def test_a_key_passes_on_what_members_say(library: RunningService) -> None:
    """Of searches that it made for them, and of those it made by its own right; not of another member's."""
    key = key_of(library, CARL, mayActForUsers=True)
    own = searched(library, api_key=key)["searchId"]
    for_ben = searched(library, api_key=key, userEmail=BEN)["searchId"]
    done(judge(library, own, api_key=key, userEmail=ADA))
    done(judge(library, for_ben, api_key=key, userEmail=BEN))
    for named in ({"userEmail": ADA}, {"userEmail": VISITOR}, {}):
        told(judge(library, for_ben, api_key=key, **named))
    assert [(one["actor"]["email"], one["actingFor"]["email"]) for one in entries(library)] == [
        (CARL, BEN),
        (CARL, ADA),
    ]


def test_an_admins_key_judges_for_a_member_what_the_member_may(library: RunningService) -> None:
    """Naming a member takes away what the key's owner may do as an admin; naming somebody outside doesn't."""
    by_ben = searched(library, api_key=key_of(library, BEN))["searchId"]
    told(judge(library, by_ben, userEmail=ADA))
    done(judge(library, by_ben, userEmail=BEN))
    done(judge(library, by_ben, userEmail=VISITOR))


def test_only_what_was_found_is_judged(library: RunningService) -> None:
    """Another document is a 400 and changes nothing, though the caller may read it, and for an admin too."""
    found = searched(library)
    [result] = found["results"]
    [other] = searched(library, "gate")["results"]
    done(judge(library, found["searchId"], documentId=result["documentId"]))
    for document_id in (other["documentId"], str(uuid7())):
        refused = judge(library, found["searchId"], documentId=document_id, feedback="THUMBS_DOWN")
        assert code(refused) == (400, "document_not_in_results")
        assert [each["field"] for each in refused.json()["error"]["details"]] == ["documentId"]
    assert thumbs(library, found["searchId"]) == "THUMBS_UP"
    assert len(entries(library)) == 1
    empty = searched(library, "zeppelin")["searchId"]
    assert code(judge(library, empty, documentId=result["documentId"])) == (400, "document_not_in_results")
    done(judge(library, empty))


def test_what_was_found_in_a_collection_is_judged(library: RunningService) -> None:
    """A document of which several chunks were found is kept once."""
    collection_id = create_collection(library, "Rules")
    found = uploaded(library, "long", "Some dogs swim farther than others. " * 200)
    other = uploaded(library, "cats", "Cats stay ashore.")
    for one in (found, other):
        ok(add_to_collection(library, one["documentId"], collection_id))
    options = {"mode": "LEXICAL"}
    body = {"searchQuery": "dogs", "documentCollectionId": collection_id, "searchOptions": options}
    search = done(library.call("search/searchDocumentCollection", body))
    assert len(search["results"][0]["chunks"]) > 1
    done(judge(library, search["searchId"], documentId=found["documentId"]))
    refused = judge(library, search["searchId"], documentId=other["documentId"])
    assert code(refused) == (400, "document_not_in_results")
    with library.owner_connection() as connection:
        kept = connection.execute("SELECT result_count, document_ids::text[] FROM searches").fetchall()
    assert kept == [(len(search["results"][0]["chunks"]), [found["documentId"]])]


def test_what_was_found_is_judged_when_it_is_gone(library: RunningService) -> None:
    """A deleted document was among the results all the same; of searches from before they were kept, any was."""
    found = searched(library)
    document_id = found["results"][0]["documentId"]
    done(library.call("catalog/deleteDocument", {"documentId": document_id}))
    done(judge(library, found["searchId"], documentId=document_id))
    with library.owner_connection() as connection:
        connection.execute("UPDATE searches SET document_ids = NULL")
    done(judge(library, found["searchId"], documentId=str(uuid7())))


def where(service: RunningService, word: str) -> set[str]:
    """The tables that hold a word in any column."""
    with service.owner_connection() as connection:
        tables = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        return {
            table
            for table in tables
            if connection.execute(f"SELECT FROM {table} WHERE {table}::text LIKE %s LIMIT 1", [f"%{word}%"]).rowcount
        }


def test_an_end_user_who_is_no_member_is_kept_as_text(library: RunningService) -> None:
    """The key's owner gives it; the address stands in the entry's text, before the comment, where it can be erased."""
    key = key_of(library, CARL, mayActForUsers=True)
    search_id = searched(library, api_key=key)["searchId"]
    done(judge(library, search_id, api_key=key, userEmail=VISITOR, comments="Just it"))
    done(judge(library, search_id, api_key=key, userEmail=VISITOR))
    silent, said = entries(library)
    assert (said["text"], silent["text"]) == (f"End user: {VISITOR}\n\nJust it", f"End user: {VISITOR}")
    for entry in (said, silent):
        assert entry["actor"]["email"] == CARL
        assert "actingFor" not in entry
        assert entry["details"] == {"feedback": "THUMBS_UP"}
    assert where(library, VISITOR) == {"free_texts"}
    library.run(erasure.erase_person(library.runtime.database, email=CARL))
    assert where(library, VISITOR) == set()
    assert [one["auditLogId"] for one in entries(library)] == [silent["auditLogId"], said["auditLogId"]]


def test_somebody_who_left_is_no_member(library: RunningService) -> None:
    """An inactive user is kept as text: a key can't act for them."""
    a_user(library, ADA, active=False)
    done(judge(library, searched(library)["searchId"], userEmail=ADA))
    [entry] = entries(library)
    assert (entry["text"], "actingFor" in entry) == (f"End user: {ADA}", False)


@pytest.mark.parametrize(
    "address",
    ["", "nobody", f"{'x' * 320}@elsewhere.test", "a\nb@elsewhere.test", "a\u202eb@elsewhere.test", "a\0@b.c"],
)
def test_what_is_no_address_is_refused(library: RunningService, address: str) -> None:
    """Too long, with characters that show nothing, or no address at all: nothing is kept."""
    assert judge(library, searched(library)["searchId"], userEmail=address).status_code == 400
    assert entries(library) == []


def test_a_key_that_may_not_act_names_nobody(library: RunningService) -> None:
    """403 for a member and for anybody else alike, so that it isn't told who is one."""
    key = key_of(library, CARL)
    search_id = searched(library, api_key=key)["searchId"]
    for email in (ADA, VISITOR):
        assert code(judge(library, search_id, api_key=key, userEmail=email)) == (403, "key_may_not_act_for_users")
