"""Lists that are narrowed to ids: what is looked at by its address is one call, whatever else there is."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.harness.documents import uploaded
from tests.harness.services import RunningService
from tests.service.agents import an_agent
from tests.service.directory import a_group, a_key, a_user, another_organization, code, done, walk
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

UNKNOWN = "0198c5b0-0000-7000-8000-000000000000"
IDS: Mapping[str, str] = {
    "admin/users/list": "id",
    "admin/groups/list": "id",
    "admin/serviceAccounts/list": "serviceAccountId",
    "admin/serviceAccountTokens/list": "tokenId",
    "admin/apiKeys/list": "apiKeyId",
    "admin/scimTokens/list": "tokenId",
    "admin/oauthClients/list": "clientId",
    "admin/agents/list": "agentId",
    "admin/auditLog/query": "auditLogId",
    "catalog/listDocuments": "documentId",
}


def two_of_each(service: RunningService) -> None:
    """At least two of everything that there are lists of."""
    enable_service_accounts(service)
    for name in ("one", "two"):
        a_user(service, f"{name}@example.test")
        a_group(service, name)
        a_token(service, an_account(service, name), "catalog:read")
        a_key(service, name=name)
        done(service.call("admin/scimTokens/create", {"name": name}))
        an_agent(service, name=name)
        uploaded(service, name)
        client = {"name": name, "redirectUris": ["https://a.example/cb"], "scopes": ["api:catalog:read"]}
        done(service.call("admin/oauthClients/create", client))


def listed(service: RunningService, operation: str, **filters: Any) -> list[str]:
    """The ids of a list."""
    return [row[IDS[operation]] for row in walk(service, operation, filters, page_size=1)]


def test_a_list_is_narrowed_to_ids(service: RunningService) -> None:
    """Those asked for, each once, in the list's own order, on pages of any size; those of nothing are passed over."""
    two_of_each(service)
    for operation in IDS:
        everything = listed(service, operation)
        assert len(everything) >= 2, operation
        for one in everything:
            assert listed(service, operation, ids=[one]) == [one], operation
        assert listed(service, operation, ids=[everything[-1], UNKNOWN, everything[0]]) == [
            everything[0],
            everything[-1],
        ], operation
        assert listed(service, operation, ids=[UNKNOWN]) == []


def test_ids_narrow_beside_other_filters(service: RunningService) -> None:
    """What fits both is left."""
    two_of_each(service)
    one, two = (row["id"] for row in walk(service, "admin/groups/list", {}, page_size=9))
    assert listed(service, "admin/groups/list", ids=[one, two], query="two") == [two]
    first, second = walk(service, "admin/serviceAccountTokens/list", {}, page_size=9)
    of_the_first = {"ids": [second["tokenId"]], "serviceAccountId": first["serviceAccountId"]}
    assert listed(service, "admin/serviceAccountTokens/list", **of_the_first) == []


@pytest.mark.parametrize("operation", IDS)
def test_ids_of_another_organization_are_of_nothing(service: RunningService, operation: str) -> None:
    """Nobody learns by an id what is not theirs; and an empty list of ids, which means nothing, is refused."""
    two_of_each(service)
    known = listed(service, operation)
    stranger = another_organization(service)
    assert walk(service, operation, {"ids": known}, page_size=9, api_key=stranger) == []
    for ids in ([], ["no id"], [UNKNOWN] * 1001):
        assert code(service.call(operation, {"ids": ids})) == (400, "invalid_request")


def test_documents_by_id_are_those_that_one_may_read(service: RunningService) -> None:
    """An id opens nothing: a member gets the documents that they may read, and no word of the others."""
    mine, other = (uploaded(service, name)["documentId"] for name in ("mine", "other"))
    key = service.new_user("ada@example.test")
    grants = [{"principal": {"type": "user", "email": "ada@example.test"}, "role": "VIEWER"}]
    resource = {"resourceType": "UPLOADED_DOCUMENT", "resourceId": mine}
    done(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    answer = done(service.call("catalog/listDocuments", {"ids": [mine, other]}, api_key=key))
    assert [one["documentId"] for one in answer["documents"]] == [mine]
