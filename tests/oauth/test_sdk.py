"""The SDK's side of OAuth, against the real service, blocking and awaiting."""

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
import pytest_asyncio

from carrel import AuthenticationError
from carrel.oauth import InvalidGrantError, MemoryTokenStore
from tests.client.test_files import Pipe
from tests.oauth.flow import App, Person, later, works
from tests.oauth.sdk import Application, callback, ended, newly, token_requests

WRITE = ["api:catalog:read", "api:catalog:write"]


@pytest_asyncio.fixture(params=["sync", "async"])
async def use(request: pytest.FixtureRequest, app: App) -> AsyncIterator[Application]:
    application = Application(app, is_async=request.param == "async")
    yield application
    await application.close()


async def test_the_sdk_completes_the_flow(service, use: Application, ada: Person) -> None:
    oauth, tokens = await use.signed_in(ada)
    assert (tokens.token_type, tokens.scope) == ("Bearer", "api:catalog:read")
    assert not tokens.ends_within(timedelta(minutes=59))
    found = await use(use.api(access_token=tokens.access_token).search.search_document_catalog("anything"))
    assert found.results == []
    renewed = await use(oauth.refresh(tokens))
    assert renewed.refresh_token != tokens.refresh_token
    assert works(service, renewed.access_token)
    with pytest.raises(InvalidGrantError) as caught:
        await use(oauth.refresh(tokens))
    assert (caught.value.code, caught.value.status) == ("invalid_grant", 400)
    await use(oauth.revoke(renewed))
    assert not works(service, renewed.access_token)
    with pytest.raises(InvalidGrantError):
        await use(oauth.refresh(renewed))
    await use(oauth.revoke(renewed))


async def test_the_metadata_says_what_is_known_without_it(service, use, ada):
    oauth = use.client()
    described = await use(oauth.discover())
    assert described == oauth._endpoints.server
    other = oauth.with_server(described)
    request = other.authorization_request()
    assert works(service, (await use(other.exchange(callback(ada, request.url), request))).access_token)


async def test_an_ended_token_is_renewed_before_a_call(service, use: Application, ada: Person) -> None:
    client, store = await use.acting_for(ada, has_ended=True)
    before = token_requests(service)
    for _ in range(3):
        await use(client.search.search_document_catalog("anything"))
    stored = store.get("ada")
    assert stored is not None
    assert works(service, stored.access_token)
    assert not stored.ends_within(timedelta(minutes=59))
    assert newly(service, before) == [200]


async def test_a_token_the_service_calls_ended_is_renewed_once(service, use, ada):
    client, _ = await use.acting_for(ada, scopes=WRITE)
    before = token_requests(service)
    await use(client.search.search_document_catalog("anything"))
    later(service, hours=1, seconds=1)
    uploaded = await use(client.catalog.upload_file(b"# Trains\n", document_external_id="a", file_name="a.md"))
    assert uploaded.status == "CREATED"
    later(service, hours=1, seconds=1)
    listed = client.catalog.list_documents()
    names = [document.document_name async for document in listed] if use.is_async else [d.document_name for d in listed]
    assert names == ["Trains"]
    later(service, hours=1, seconds=1)
    file = await use(client.catalog.download_document(uploaded.document_id))
    assert await use(file.read()) == b"# Trains\n"
    assert newly(service, before) == [200] * 3


async def test_what_cant_be_sent_again_is_not(service, use: Application, ada: Person) -> None:
    client, _ = await use.acting_for(ada, scopes=WRITE)
    before = token_requests(service)
    later(service, hours=1, seconds=1)
    with pytest.raises(AuthenticationError, match="credential_expired"):
        await use(client.catalog.upload_file(Pipe(b"# Trains\n"), document_external_id="a", file_name="a.md"))
    uploaded = await use(client.catalog.upload_file(Pipe(b"# Trains\n"), document_external_id="a", file_name="a.md"))
    assert uploaded.status == "CREATED"
    assert newly(service, before) == [200]


async def test_a_given_http_client_is_used(use: Application, ada: Person) -> None:
    seen: list[str] = []
    hooks = {"request": [lambda request: seen.append(request.url.path)]}
    blocking = use.keep(httpx.Client(event_hooks=hooks))
    oauth, tokens = await use.signed_in(ada, **({} if use.is_async else {"http_client": blocking}))
    store = MemoryTokenStore()
    store.put("ada", ended(tokens))
    source = oauth.token_source(store, "ada", **({"http_client": blocking} if use.is_async else {}))
    await use(use.api(tokens=source).search.search_document_catalog("anything"))
    assert seen == ["/api/oauth/token"] * (1 if use.is_async else 2)
