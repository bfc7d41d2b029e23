"""Lists filtered by ids: a single call, however large the list."""

from collections.abc import Mapping

import pytest

from tests.harness.cases import cases
from tests.harness.documents import uploaded
from tests.harness.services import RunningService
from tests.service.conversations import an_agent
from tests.service.directory import a_group, a_key, a_user, another_organization, code, done, grant, user, walk
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

UNKNOWN = "0198c5b0-0000-7000-8000-000000000000"
IDS: Mapping[str, str] = cases("lists_by_id")


@pytest.fixture(scope="module")
def stocked(module_service: RunningService) -> RunningService:
    service = module_service
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
    return service


@pytest.fixture(scope="module")
def stranger(module_service: RunningService) -> str:
    return another_organization(module_service)


def listed(service: RunningService, operation: str, **filters) -> list[str]:
    return [row[IDS[operation]] for row in walk(service, operation, filters, page_size=1)]


@pytest.mark.parametrize("operation", IDS)
def test_a_list_is_narrowed_to_ids(stocked: RunningService, stranger: str, operation: str) -> None:
    first, *_, last = everything = listed(stocked, operation)
    for one in everything:
        assert listed(stocked, operation, ids=[one]) == [one]
    assert listed(stocked, operation, ids=[last, UNKNOWN, first]) == [first, last]
    assert listed(stocked, operation, ids=[UNKNOWN]) == []
    assert walk(stocked, operation, {"ids": everything}, page_size=9, api_key=stranger) == []
    for ids in ([], ["no id"], [UNKNOWN] * 1001):
        assert code(stocked.call(operation, {"ids": ids})) == (400, "invalid_request")


def test_ids_narrow_beside_other_filters(stocked: RunningService) -> None:
    one, two = (row["id"] for row in walk(stocked, "admin/groups/list", {}, page_size=9))
    assert listed(stocked, "admin/groups/list", ids=[one, two], query="two") == [two]
    first, second = walk(stocked, "admin/serviceAccountTokens/list", {}, page_size=9)
    of_the_first = {"ids": [second["tokenId"]], "serviceAccountId": first["serviceAccountId"]}
    assert listed(stocked, "admin/serviceAccountTokens/list", **of_the_first) == []


def test_documents_by_id_are_those_that_one_may_read(service: RunningService) -> None:
    mine, other = (uploaded(service, name)["documentId"] for name in ("mine", "other"))
    key = service.new_user("ada@example.test")
    grant(service, {"resourceType": "UPLOADED_DOCUMENT", "resourceId": mine}, user("ada@example.test"))
    answer = done(service.call("catalog/listDocuments", {"ids": [mine, other]}, api_key=key))
    assert [one["documentId"] for one in answer["documents"]] == [mine]
