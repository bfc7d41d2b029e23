"""The client against the real service: from a key and an address to what only some may find."""

from pathlib import Path

import pytest

from carrel import AuthenticationError, Carrel, ConflictError, NotFoundError, PermissionDeniedError
from carrel.wire.uploads import PlanAction, UploadStatus
from tests.client.conftest import Caller, MakeCaller
from tests.client.contract import OPERATIONS
from tests.client.test_operations import LISTS, SINGLE, name_of, requests_of
from tests.harness.cases import cases

TRAVEL = "# Travel\n\nBook the night train to Vienna three weeks ahead.\n"


@pytest.fixture
def real(service, open_client: MakeCaller) -> Caller:
    return open_client(service.api_key, service.base_url)


async def _upload(real: Caller, tmp_path: Path, **options):
    path = tmp_path / "travel.md"
    path.write_text(TRAVEL)
    given = {"document_external_id": "travel", "await_vector_store_sync": True, **options}
    return await real(lambda c: c.catalog.upload_file(path, **given))


async def _document(real: Caller, tmp_path: Path):
    uploaded = await _upload(real, tmp_path)
    return await real(lambda c: c.catalog.get_document(uploaded.document_id))


async def test_from_upload_to_search(real: Caller, tmp_path: Path) -> None:
    uploaded = await _upload(real, tmp_path, fingerprint="one")
    assert (uploaded.status, uploaded.indexing) == (UploadStatus.CREATED, "DONE")
    found = await real(lambda c: c.search.search_document_catalog("how do I get to Vienna"))
    assert [result.document_id for result in found.results] == [uploaded.document_id]
    document = await real(lambda c: c.catalog.get_document(uploaded.document_id))
    assert (document.document_name, document.file_size, document.document_version) == ("Travel", len(TRAVEL), 1)
    planned = {"document_external_id": "travel", "fingerprint": "one"}
    plan = await real(lambda c: c.catalog.plan_upload([planned, {**planned, "document_external_id": "new"}]))
    assert [item.action for item in plan.documents] == [PlanAction.UNCHANGED, PlanAction.CREATE]
    listed = await real.walk(real.client.catalog.list_documents())
    assert [item.document_id for item in listed] == [uploaded.document_id]
    download = await real(lambda c: c.catalog.download_document(uploaded.document_id))
    assert (await real(lambda _: download.save(tmp_path / "again.md"))).read_text() == TRAVEL
    await real(lambda c: c.catalog.delete_document(uploaded.document_id))
    with pytest.raises(NotFoundError):
        await real(lambda c: c.catalog.get_document(uploaded.document_id))


async def test_collections(real: Caller, tmp_path: Path) -> None:
    uploaded = await _upload(real, tmp_path)
    schema = {"fields": [{"name": "team", "type": "STRING"}]}
    shelves = real.client.document_collections
    made = await real(lambda _: shelves.create_document_collection("Policies", custom_metadata_schema=schema))
    with pytest.raises(ConflictError):
        await real(lambda _: shelves.create_document_collection("Policies"))
    where = {"document_id": uploaded.document_id, "document_collection_id": made.document_collection_id}
    added = await real(lambda _: shelves.add_document_to_collection(**where, custom_metadata={"team": "ops"}))
    assert (added.status, added.embedded_chunk_count) == ("INDEXED", 0)
    shelf = {"document_collection_id": made.document_collection_id}
    found = await real(lambda c: c.search.search_document_collection("night train", **shelf))
    assert "Vienna" in found.results[0].chunks[0].text
    inside = await real.walk(shelves.list_documents_in_collection(**shelf))
    assert [(item.stale, item.custom_metadata) for item in inside] == [(False, {"team": "ops"})]
    await real(lambda _: shelves.remove_document_from_collection(**where))
    with pytest.raises(NotFoundError):
        await real(lambda _: shelves.remove_document_from_collection(**where))


async def test_people_see_what_they_may(real: Caller, tmp_path: Path) -> None:
    document = await _document(real, tmp_path)
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    as_ada = {"user_email": "ada@example.test"}

    async def found() -> int:
        return len((await real(lambda c: c.search.search_document_catalog("train", **as_ada))).results)

    assert await found() == 0
    grant = {"principal": {"type": "user", "email": "ada@example.test"}, "role": "VIEWER"}
    await real(lambda c: c.admin.grants.set(document.resource, [grant]))
    assert await found() == 1
    readers = await real.walk(
        real.client.permissions.list_authorized_principals_for_resource(document.resource, page_size=1)
    )
    assert "ada@example.test" in [reader.email for reader in readers]
    assert await real.walk(real.client.permissions.list_authorized_resources(**as_ada)) == [document.resource]
    await real(lambda c: c.admin.grants.set(document.resource, []))
    assert await found() == 0


async def test_keys_and_audit(real: Caller, service) -> None:
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    made = await real(lambda c: c.admin.api_keys.create("Ada's", owner_email="ada@example.test"))
    assert made.api_key not in repr(made)
    with Carrel(made.api_key, service.base_url) as ada:
        assert list(ada.catalog.list_documents()) == []
        with pytest.raises(PermissionDeniedError):
            ada.admin.organization.get()
    await real(lambda c: c.admin.api_keys.revoke(made.api_key_id))
    rows = await real.walk(real.client.admin.api_keys.list(page_size=1))
    assert {row.status for row in rows if row.api_key_id == made.api_key_id} == {"revoked"}
    assert len(await real.walk(real.client.admin.audit_log.query(target_id=str(made.api_key_id)))) == 2


async def test_service_accounts_and_their_tokens(real: Caller, service, tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        await real(lambda c: c.admin.service_accounts.create("Reader"))
    assert caught.value.code == "service_accounts_disabled"
    await real(lambda c: c.admin.organization.update(service_accounts_enabled=True))
    document = await _document(real, tmp_path)
    account = await real(lambda c: c.admin.service_accounts.create("Reader"))
    member = {"type": "serviceAccount", "id": account.service_account_id}
    await real(lambda c: c.admin.grants.set(document.resource, [{"principal": member, "role": "VIEWER"}]))
    tokens, account_id = real.client.admin.service_account_tokens, account.service_account_id
    planned = await real(lambda _: tokens.preview_reach(account_id, ["catalog:read"]))
    assert (planned.document_count, planned.editable_document_count) == (1, 0)
    assert "catalog/getDocument" in planned.endpoints
    minted = await real(lambda _: tokens.mint(account_id, "one", scopes=["catalog:read"]))
    assert minted.token not in repr(minted)
    assert await real(lambda _: tokens.preview_reach(token_id=minted.token_id)) == planned
    with Carrel(minted.token, service.base_url) as robot:
        own = robot.permissions.who_am_i()
        assert (own.kind, own.credential_name, own.email) == ("serviceAccountToken", "one", account.email)
        assert (own.scopes, own.expires_at, own.is_admin) == (["catalog:read"], minted.expires_at, False)
        assert [one.document_id for one in robot.catalog.list_documents()] == [document.document_id]
        with pytest.raises(PermissionDeniedError):
            robot.catalog.delete_document(document.document_id)
        await real(lambda _: tokens.revoke(minted.token_id))
        with pytest.raises(AuthenticationError):
            robot.search.search_document_catalog("train")
    listed = await real.walk(tokens.list(account_id))
    assert [(token.token_id, token.status) for token in listed] == [(minted.token_id, "revoked")]
    assert [one.email for one in await real.walk(real.client.admin.service_accounts.list())] == [account.email]
    await real(lambda c: c.admin.service_accounts.delete(account_id))
    assert await real.walk(real.client.admin.service_accounts.list()) == []


async def test_why_and_whether(real: Caller, tmp_path: Path) -> None:
    document = await _document(real, tmp_path)
    ada = {"type": "user", "email": "ada@example.test"}
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    made = await real(lambda c: c.admin.groups.upsert([{"name": "Ops", "members": [ada]}]))
    why = await real(lambda c: c.permissions.explain_authorization(document.resource, ada))
    assert (why.authorized, why.paths) == (False, [])
    assert why.missing
    group = {"type": "group", "id": made.groups[0].id}
    await real(lambda c: c.admin.grants.set(document.resource, [{"principal": group, "role": "VIEWER"}]))
    why = await real(lambda c: c.permissions.explain_authorization(document.resource, ada))
    assert why.authorized
    assert [[step.type for step in path] for path in why.paths] == [["user", "group", "grant", "resource"]]
    checked = await real(
        lambda c: c.permissions.check_resource_authorization_for_user(document.resource, user_email="ada@example.test")
    )
    assert checked.authorized
    nothing = {"resource_id": "nothing", "resource_type": "BOX_FILE"}
    both = await real(lambda c: c.permissions.check_bulk_resources_authorization_for_user([nothing, document.resource]))
    assert [one.authorized for one in both.results] == [False, True]
    assert both.to_frame()["resource.resource_id"].tolist()[0] == "nothing"
    members = await real.walk(real.client.admin.groups.list_members(made.groups[0].id))
    assert [(member.type, member.email) for member in members] == [("user", "ada@example.test")]


async def test_the_search_log(real: Caller, tmp_path: Path) -> None:
    await _upload(real, tmp_path)
    found = await real(lambda c: c.search.search_document_catalog("train to Vienna", mode="LEXICAL"))
    await real(lambda c: c.search.search_document_catalog("zeppelins", mode="LEXICAL"))
    await real(lambda c: c.search.submit_search_feedback(search_id=found.search_id, feedback="THUMBS_UP"))
    log = await real.walk(real.client.admin.search_log.query())
    assert [(one.query, one.result_count, one.feedback) for one in log] == [
        ("zeppelins", 0, None),
        ("train to Vienna", 1, "THUMBS_UP"),
    ]
    without = await real.walk(real.client.admin.search_log.query(without_results=True))
    assert [one.query for one in without] == ["zeppelins"]
    liked = await real.walk(real.client.admin.search_log.query(feedback="THUMBS_UP"))
    assert [one.search_id for one in liked] == [found.search_id]


AS_KEY_OWNER_ONLY = set(cases("operations_of_the_key_owner_alone"))


TAKEN_AS_TEXT = {"search/submitSearchFeedback", "copilots/provideMessageFeedback"}


def test_a_named_user_is_never_passed_over(service) -> None:
    names = {name_of(place) for place in SINGLE + LISTS} - AS_KEY_OWNER_ONLY - TAKEN_AS_TEXT
    acting = [OPERATIONS[name] for name in names if OPERATIONS[name].version == "v0" and not name.startswith("admin/")]
    assert len(acting) > 12
    for operation in acting:
        answer = service.call(operation.name, requests_of(operation)[0] | {"userEmail": "nobody@example.test"})
        code = answer.json()["error"]["code"]
        assert (operation.name, answer.status_code, code) == (operation.name, 400, "unknown_user")
