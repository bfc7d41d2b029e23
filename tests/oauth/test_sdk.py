"""The SDK's own side of OAuth, against the real service, blocking and awaiting."""

import io
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio

from carrel import AsyncCarrel, AuthenticationError, Carrel
from carrel.oauth import (
    AccessDeniedError,
    AuthorizationError,
    CallbackError,
    FileTokenStore,
    InvalidClientError,
    InvalidGrantError,
    MemoryTokenStore,
    SignInRequiredError,
)
from tests.harness.services import RunningService
from tests.oauth.conftest import Standing
from tests.oauth.flow import App, a_person, an_app, later, works
from tests.oauth.sdk import Application, callback, ended, token_requests
from tests.service.directory import done

MakeApplication = Callable[[App], Application]
WRITE = ["api:catalog:read", "api:catalog:write"]


@pytest_asyncio.fixture(params=["sync", "async"])
async def application_of(request: pytest.FixtureRequest) -> AsyncIterator[MakeApplication]:
    """Make applications in this run's mode."""
    made: list[Application] = []

    def make(app: App) -> Application:
        made.append(Application(app, is_async=request.param == "async"))
        return made[-1]

    yield make
    for application in made:
        await application.close()


def a_client(application: Application, **options: Any) -> Any:
    """A client of the API in the application's mode, closed with the application."""
    kind = AsyncCarrel if application.is_async else Carrel
    return application.keep(kind(base_url=application.app.service.base_url, **options))


async def test_the_sdk_completes_the_flow(service: RunningService, application_of: MakeApplication) -> None:
    """Request, callback, exchange, a call, refresh and revocation."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service))
    assert (tokens.token_type, tokens.scope, tokens.ends_within(timedelta(minutes=59))) == (
        "Bearer",
        "api:catalog:read",
        False,
    )
    found = await use(a_client(use, access_token=tokens.access_token).search.search_document_catalog("anything"))
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


async def test_revoking_one_token_leaves_the_others(standing: Standing, application_of: MakeApplication) -> None:
    """A text is one token; an access token's end isn't the end of what was given."""
    use = application_of(standing.app)
    oauth, tokens = await use.signed_in(standing.person())
    await use(oauth.revoke(tokens.access_token))
    assert not works(standing.service, tokens.access_token)


async def test_the_metadata_says_what_is_known_without_it(standing: Standing, application_of: MakeApplication) -> None:
    """The endpoints by address are those the service describes, and either way comes to tokens."""
    use = application_of(standing.app)
    oauth = use.client()
    described = await use(oauth.discover())
    assert described == oauth._endpoints.server
    other = oauth.with_server(described)
    request = other.authorization_request()
    tokens = await use(other.exchange(callback(standing.person(), request.url), request))
    assert works(standing.service, tokens.access_token)


async def test_a_denial_is_an_error_of_its_own(standing: Standing, application_of: MakeApplication) -> None:
    """`access_denied`; no token is asked for."""
    use = application_of(standing.app)
    oauth = use.client()
    request = oauth.authorization_request(prompt="consent")
    before = token_requests(standing.service)
    with pytest.raises(AccessDeniedError) as caught:
        await use(oauth.exchange(callback(standing.person(), request.url, press="deny"), request))
    assert caught.value.code == "access_denied"
    assert token_requests(standing.service) == before


async def test_other_errors_of_the_callback_have_their_code(
    standing: Standing, application_of: MakeApplication
) -> None:
    """A scope nobody knows is `invalid_scope`; what may not be asked anybody is `login_required`."""
    use = application_of(standing.app)
    oauth = use.client()
    for options, code in (({"scopes": ["api:everything"]}, "invalid_scope"), ({"prompt": "none"}, "login_required")):
        request = oauth.authorization_request(**options)
        answer = standing.person().http.get(request.url).headers["Location"]
        with pytest.raises(AuthorizationError) as caught:
            await use(oauth.exchange(answer, request))
        assert (caught.value.code, type(caught.value)) == (code, AuthorizationError)


async def test_a_callback_of_another_request_or_server_asks_for_no_token(
    standing: Standing, application_of: MakeApplication
) -> None:
    """Another state, and another issuer's answer (RFC 9207), are refused before the code goes anywhere."""
    use = application_of(standing.app)
    oauth = use.client()
    request = oauth.authorization_request()
    answer = callback(standing.person(), request.url)
    before = token_requests(standing.service)
    elsewhere = oauth.with_server(oauth._endpoints.server.model_copy(update={"issuer": "https://elsewhere.test"}))
    with pytest.raises(CallbackError, match="state_mismatch"):
        await use(oauth.exchange(answer, oauth.authorization_request()))
    with pytest.raises(CallbackError, match="issuer_mismatch"):
        await use(elsewhere.exchange(answer, request))
    assert token_requests(standing.service) == before
    await use(oauth.exchange(answer, request))


async def test_what_the_token_endpoint_refuses(standing: Standing, application_of: MakeApplication) -> None:
    """A wrong secret is `invalid_client`; another verifier, and a code used twice, are `invalid_grant`."""
    use = application_of(standing.app)
    oauth = use.client()
    request = oauth.authorization_request()
    answer = callback(standing.person(), request.url)
    with pytest.raises(InvalidClientError) as caught:
        await use(use.client(client_secret="svc_cs_wrong").exchange(answer, request))
    assert caught.value.status == 401
    with pytest.raises(InvalidGrantError):
        await use(oauth.exchange(answer, request.model_copy(update={"code_verifier": "v" * 43})))
    tokens = await use(oauth.exchange(answer, request))
    with pytest.raises(InvalidGrantError):
        await use(oauth.exchange(answer, request))
    assert not works(standing.service, tokens.access_token)


async def test_an_ended_token_is_renewed_before_a_call(
    service: RunningService, application_of: MakeApplication
) -> None:
    """By the application's clock: one refresh, stored before the call, and none for the calls after it."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service))
    store = MemoryTokenStore()
    store.put("ada", ended(tokens))
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    for _ in range(3):
        await use(client.search.search_document_catalog("anything"))
    stored = store.get("ada")
    assert stored is not None
    assert works(service, stored.access_token)
    assert not stored.ends_within(timedelta(minutes=59))
    assert token_requests(service) == [200, 200]


async def test_a_token_the_service_calls_ended_is_renewed_once(
    service: RunningService, application_of: MakeApplication
) -> None:
    """The application's clock may be slow: after `credential_expired` the call is made again, files and lists too."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service), scopes=WRITE)
    store = MemoryTokenStore()
    store.put("ada", tokens)
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    await use(client.search.search_document_catalog("anything"))
    later(service, hours=1, seconds=1)
    uploaded = await use(client.catalog.upload_file(b"# Trains\n", document_external_id="a", file_name="a.md"))
    assert uploaded.status == "CREATED"
    later(service, hours=1, seconds=1)
    listed = client.catalog.list_documents()
    names = [document.document_name async for document in listed] if use.is_async else [d.document_name for d in listed]
    assert names == ["a.md"]
    later(service, hours=1, seconds=1)
    file = await use(client.catalog.download_document(uploaded.document_id))
    assert await use(file.read()) == b"# Trains\n"
    assert token_requests(service) == [200] * 4


class Pipe(io.BytesIO):
    """What can be read once."""

    def seekable(self) -> bool:
        """It isn't."""
        return False


async def test_what_cant_be_sent_again_is_not(service: RunningService, application_of: MakeApplication) -> None:
    """A pipe is read once: its upload is refused with the token, and another pipe's goes with the renewed one."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service), scopes=WRITE)
    store = MemoryTokenStore()
    store.put("ada", tokens)
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    later(service, hours=1, seconds=1)
    with pytest.raises(AuthenticationError, match="credential_expired"):
        await use(client.catalog.upload_file(Pipe(b"# Trains\n"), document_external_id="a", file_name="a.md"))
    uploaded = await use(client.catalog.upload_file(Pipe(b"# Trains\n"), document_external_id="a", file_name="a.md"))
    assert uploaded.status == "CREATED"
    assert token_requests(service) == [200, 200]


async def test_a_given_token_is_used_as_long_as_it_works(
    service: RunningService, application_of: MakeApplication
) -> None:
    """Without anything to renew it by, its end is an AuthenticationError."""
    use = application_of(an_app(service))
    _, tokens = await use.signed_in(a_person(service))
    client = a_client(use, access_token=tokens.access_token)
    await use(client.search.search_document_catalog("anything"))
    later(service, hours=1, seconds=1)
    with pytest.raises(AuthenticationError, match="credential_expired"):
        await use(client.search.search_document_catalog("anything"))
    assert token_requests(service) == [200]


async def test_what_was_revoked_asks_for_a_new_sign_in(
    service: RunningService, application_of: MakeApplication
) -> None:
    """The person took the consent back: SignInRequiredError, and nothing is left in the store to be tried again."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service))
    store = MemoryTokenStore()
    store.put("ada", tokens)
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    await use(oauth.revoke(tokens))
    for _ in range(2):
        with pytest.raises(SignInRequiredError, match="authorize the application again"):
            await use(client.search.search_document_catalog("anything"))
    assert store.get("ada") is None
    assert token_requests(service) == [200, 400]


async def test_a_person_who_signed_in_again_goes_on(service: RunningService, application_of: MakeApplication) -> None:
    """Tokens that another process put into the store take the place of those that stopped; nothing is refreshed."""
    use = application_of(an_app(service))
    ada = a_person(service)
    oauth, first = await use.signed_in(ada)
    store = MemoryTokenStore()
    store.put("ada", first)
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    await use(client.search.search_document_catalog("anything"))
    await use(oauth.revoke(first))
    _, second = await use.signed_in(ada)
    store.put("ada", second)
    await use(client.search.search_document_catalog("anything"))
    assert token_requests(service) == [200, 200]


async def test_a_person_who_was_deactivated_has_to_sign_in_again(
    service: RunningService, application_of: MakeApplication
) -> None:
    """Deactivating somebody revokes the tokens that applications have of them, those to refresh with as well."""
    use = application_of(an_app(service))
    oauth, tokens = await use.signed_in(a_person(service))
    store = MemoryTokenStore()
    store.put("ada", tokens)
    client = a_client(use, tokens=oauth.token_source(store, "ada"))
    done(service.call("admin/users/upsert", {"users": [{"email": "ada@example.test", "active": False}]}))
    with pytest.raises(SignInRequiredError):
        await use(client.search.search_document_catalog("anything"))


async def test_a_given_http_client_is_used(standing: Standing, application_of: MakeApplication) -> None:
    """Its headers and hooks are for tokens too, refreshed in a thread or not."""
    seen: list[str] = []
    use = application_of(standing.app)
    hooks = {"request": [lambda request: seen.append(request.url.path)]}
    blocking = use.keep(httpx.Client(event_hooks=hooks))
    oauth, tokens = await use.signed_in(standing.person(), **({} if use.is_async else {"http_client": blocking}))
    store = MemoryTokenStore()
    store.put("ada", ended(tokens))
    source = oauth.token_source(store, "ada", **({"http_client": blocking} if use.is_async else {}))
    await use(a_client(use, tokens=source).search.search_document_catalog("anything"))
    assert seen == ["/api/oauth/token"] * (1 if use.is_async else 2)


async def test_tokens_in_files_outlive_the_process(
    standing: Standing, application_of: MakeApplication, tmp_path: Any
) -> None:
    """Another store of the same folder has the session."""
    use = application_of(standing.app)
    oauth, tokens = await use.signed_in(standing.person())
    FileTokenStore(tmp_path / "tokens").put("ada", ended(tokens))
    source = oauth.token_source(FileTokenStore(tmp_path / "tokens"), "ada")
    await use(a_client(use, tokens=source).search.search_document_catalog("anything"))
    assert FileTokenStore(tmp_path / "tokens").get("ada") != ended(tokens)
