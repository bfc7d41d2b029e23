"""search/submitSearchFeedback: by the searcher or an admin, on found documents, for members and others."""

import random
from typing import Any

import httpx
import pytest

from service.domains.oversight.audit_log import erasure
from service.platform.identifiers import uuid7
from tests.harness.documents import create_collection, uploaded
from tests.harness.services import RunningService
from tests.service.directory import a_key, a_user, code, done, on_rows, walk
from tests.service.service_accounts import a_token, an_account, enable_service_accounts
from tests.service.test_text_erasure import where

ADA, BEN, CARL = "ada@example.test", "ben@example.test", "carl@example.test"
VISITOR, LEFT = "visitor@elsewhere.test", "left@example.test"


@pytest.fixture(scope="module")
def library(module_service: RunningService) -> RunningService:
    return a_library(module_service)


def a_library(service: RunningService) -> RunningService:
    for email in (ADA, BEN, CARL):
        a_user(service, email)
    uploaded(service, "ferry", "Dogs may travel on the ferry.", file_name="a.md", internalPublic="true")
    uploaded(service, "gate", "The gate opens at nine.", file_name="a.md", internalPublic="true")
    return service


def key_of(service: RunningService, email: str, **body: Any) -> str:
    return a_key(service, ownerEmail=email, **body)["apiKey"]


def searched(service: RunningService, query: str = "dogs", *, api_key: str | None = None, **body: Any) -> Any:
    body = {"searchQuery": query, "searchOptions": {"mode": "LEXICAL", "maxResults": 1}, **body}
    return done(service.call("search/searchDocumentCatalog", body, api_key=api_key))


def judge(service: RunningService, search_id: str, *, api_key: str | None = None, **body: Any) -> httpx.Response:
    body = {"searchId": search_id, "feedback": "THUMBS_UP", **body}
    return service.call("search/submitSearchFeedback", body, api_key=api_key)


def entries(service: RunningService, *search_ids: str) -> list[dict[str, Any]]:
    found = walk(service, "admin/auditLog/query", {"action": "search.feedback"}, page_size=100)
    return [one for one in found if one["target"]["id"] in search_ids]


def thumbs(service: RunningService, search_id: str) -> str | None:
    [one] = walk(service, "admin/searchLog/query", {"ids": [search_id]}, page_size=100)
    return one.get("feedback")


def told(response: httpx.Response, *unlike: str) -> str:
    assert code(response) == (404, "search_not_found")
    text = response.text
    for each in (response.headers["X-Request-Id"], *unlike):
        text = text.replace(each, "…")
    return text


def test_feedback_is_for_searches_of_ones_own(library: RunningService) -> None:
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
    assert entries(library, by_ada, for_ada, by_admin) == []
    for search_id in (by_ada, for_ada):
        done(judge(library, search_id, api_key=keys[ADA]))
        done(judge(library, search_id, api_key=key_of(library, ADA)))
        assert thumbs(library, search_id) == "THUMBS_UP"
    done(judge(library, by_ada, feedback="THUMBS_DOWN"))
    assert thumbs(library, by_ada) == "THUMBS_DOWN"


def test_a_service_account_judges_its_own_searches(library: RunningService) -> None:
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
    key = key_of(library, CARL, mayActForUsers=True)
    own = searched(library, api_key=key)["searchId"]
    for_ben = searched(library, api_key=key, userEmail=BEN)["searchId"]
    done(judge(library, own, api_key=key, userEmail=ADA))
    done(judge(library, for_ben, api_key=key, userEmail=BEN))
    for named in ({"userEmail": ADA}, {"userEmail": VISITOR}, {}):
        told(judge(library, for_ben, api_key=key, **named))
    people = [(one["actor"]["email"], one["actingFor"]["email"]) for one in entries(library, own, for_ben)]
    assert people == [(CARL, BEN), (CARL, ADA)]


def test_an_admins_key_judges_for_a_member_what_the_member_may(library: RunningService) -> None:
    by_ben = searched(library, api_key=key_of(library, BEN))["searchId"]
    told(judge(library, by_ben, userEmail=ADA))
    done(judge(library, by_ben, userEmail=BEN))
    done(judge(library, by_ben, userEmail=VISITOR))


def test_only_what_was_found_is_judged(library: RunningService) -> None:
    found = searched(library)
    [result] = found["results"]
    [other] = searched(library, "gate")["results"]
    done(judge(library, found["searchId"], documentId=result["documentId"]))
    for document_id in (other["documentId"], str(uuid7())):
        refused = judge(library, found["searchId"], documentId=document_id, feedback="THUMBS_DOWN")
        assert code(refused) == (400, "document_not_in_results")
        assert [each["field"] for each in refused.json()["error"]["details"]] == ["documentId"]
    assert thumbs(library, found["searchId"]) == "THUMBS_UP"
    assert len(entries(library, found["searchId"])) == 1
    empty = searched(library, "zeppelin")["searchId"]
    assert code(judge(library, empty, documentId=result["documentId"])) == (400, "document_not_in_results")
    done(judge(library, empty))


def test_a_thumb_is_counted_for_each_result(own_service: RunningService) -> None:
    library = a_library(own_service)
    options, older = {"mode": "LEXICAL", "maxResults": 9}, searched(library)["searchId"]
    on_rows(library, "UPDATE searches SET feedback = 'THUMBS_UP'")
    found = searched(library, "ferry gate", searchOptions=options)
    documents = [None, *(each["documentId"] for each in found["results"])]
    assert len(documents) == 3
    search_id, chance, given = found["searchId"], random.Random(1), dict[Any, str]()  # noqa: S311 - no secret
    for _ in range(15):
        document = chance.choice(documents)
        verdict = given[document] = chance.choice(["THUMBS_UP", "THUMBS_DOWN"])
        named = {"documentId": document} if document else {}
        done(judge(library, search_id, feedback=verdict, comments="Because.", **named))
        counts = [list(given.values()).count(verdict) for verdict in ("THUMBS_UP", "THUMBS_DOWN")]
        logged = {one["searchId"]: one for one in walk(library, "admin/searchLog/query", {}, page_size=100)}
        assert [logged[search_id].get(one, 0) for one in ("thumbsUp", "thumbsDown")] == counts
        for wanted, count in zip(("THUMBS_UP", "THUMBS_DOWN"), counts, strict=True):
            listed = walk(library, "admin/searchLog/query", {"feedback": wanted}, page_size=100)
            assert (search_id in {one["searchId"] for one in listed}) is bool(count)
    assert logged[older]["thumbsUp"] == 1
    span = {"from": "2026-01-01T00:00:00Z", "to": "2033-01-01T00:00:00Z", "bucket": "week"}
    weeks = done(library.call("admin/searchLog/summarize", span))["buckets"]
    assert [sum(one[kind] for one in weeks) for kind in ("thumbsUp", "thumbsDown")] == [counts[0] + 1, counts[1]]
    assert len(entries(library, search_id)) == 15


def test_what_was_found_in_a_collection_is_judged_also_when_it_is_gone(service: RunningService) -> None:
    collection_id = create_collection(service, "Rules")
    found = uploaded(service, "long", "Some dogs swim farther than others. " * 200, collectionId=collection_id)
    other = uploaded(service, "cats", "Cats stay ashore.", collectionId=collection_id)
    body = {"searchQuery": "dogs", "documentCollectionId": collection_id, "searchOptions": {"mode": "LEXICAL"}}
    search = done(service.call("search/searchDocumentCollection", body))
    assert len(search["results"][0]["chunks"]) > 1
    refused = judge(service, search["searchId"], documentId=other["documentId"])
    assert code(refused) == (400, "document_not_in_results")
    kept = on_rows(service, "SELECT result_count, document_ids::text[] FROM searches")
    assert kept == [(len(search["results"][0]["chunks"]), [found["documentId"]])]
    done(service.call("catalog/deleteDocument", {"documentId": found["documentId"]}))
    done(judge(service, search["searchId"], documentId=found["documentId"]))
    on_rows(service, "UPDATE searches SET document_ids = NULL")
    done(judge(service, search["searchId"], documentId=str(uuid7())))


def test_an_end_user_who_is_no_member_is_kept_as_text(own_service: RunningService) -> None:
    """Given by the key's owner; the address precedes the comment in the entry's text, for erasure."""
    library = a_library(own_service)
    key = key_of(library, CARL, mayActForUsers=True)
    search_id = searched(library, api_key=key)["searchId"]
    done(judge(library, search_id, api_key=key, userEmail=VISITOR, comments="Just it"))
    done(judge(library, search_id, api_key=key, userEmail=VISITOR))
    silent, said = entries(library, search_id)
    assert (said["text"], silent["text"]) == (f"End user: {VISITOR}\n\nJust it", f"End user: {VISITOR}")
    for entry in (said, silent):
        assert entry["actor"]["email"] == CARL
        assert "actingFor" not in entry
        assert entry["details"] == {"feedback": "THUMBS_UP"}
    assert where(library, VISITOR) == {"free_texts"}
    library.run(erasure.erase_person(library.runtime.database, email=CARL))
    assert where(library, VISITOR) == set()
    assert [one["auditLogId"] for one in entries(library, search_id)] == [silent["auditLogId"], said["auditLogId"]]


def test_an_inactive_user_is_no_member(library: RunningService) -> None:
    a_user(library, LEFT, active=False)
    search_id = searched(library)["searchId"]
    done(judge(library, search_id, userEmail=LEFT))
    [entry] = entries(library, search_id)
    assert (entry["text"], "actingFor" in entry) == (f"End user: {LEFT}", False)


@pytest.mark.parametrize(
    "address",
    ["", "nobody", f"{'x' * 320}@elsewhere.test", "a\nb@elsewhere.test", "a\u202eb@elsewhere.test", "a\0@b.c"],
)
def test_what_is_no_address_is_refused(library: RunningService, address: str) -> None:
    search_id = searched(library)["searchId"]
    assert judge(library, search_id, userEmail=address).status_code == 400
    assert entries(library, search_id) == []


def test_a_key_that_may_not_act_names_nobody(library: RunningService) -> None:
    """403 for members and others, to avoid revealing members."""
    key = key_of(library, CARL)
    search_id = searched(library, api_key=key)["searchId"]
    for email in (ADA, VISITOR):
        assert code(judge(library, search_id, api_key=key, userEmail=email)) == (403, "key_may_not_act_for_users")
