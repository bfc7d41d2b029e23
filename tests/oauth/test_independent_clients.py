"""Independent clients complete the flow: Authlib's and requests-oauthlib's."""

from urllib.parse import urlsplit

import pytest
from authlib.integrations.base_client.errors import OAuthError as AuthlibError
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from oauthlib.oauth2.rfc6749.errors import OAuth2Error as OauthlibError
from requests_oauthlib import OAuth2Session

from tests.harness.services import RunningService
from tests.oauth.flow import CALLBACK, SCOPE, App, Person, Pkce, works
from tests.oauth.sdk import callback


@pytest.fixture(autouse=True)
def _plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both refuse plain http, on loopback too."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


def endpoint(service: RunningService, name: str) -> str:
    return str(service.http.get("/.well-known/oauth-authorization-server").json()[f"{name}_endpoint"])


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_authlibs_client_completes_the_flow(service: RunningService, app: App, ada: Person, method: str) -> None:
    with AuthlibSession(
        app.client_id,
        app.client_secret,
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        scope=SCOPE,
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
    ) as session:
        verifier = Pkce().verifier
        url, state = session.create_authorization_url(endpoint(service, "authorization"), code_verifier=verifier)
        answer = {"authorization_response": callback(ada, url), "state": state, "code_verifier": verifier}
        token = session.fetch_token(endpoint(service, "token"), **answer)
        assert token["expires_in"] == 3600
        assert session.get(f"{service.base_url}/api/v1/me").json()["email"] == "ada@example.test"
        renewed = session.refresh_token(endpoint(service, "token"))
        assert renewed["refresh_token"] != token["refresh_token"]
        assert works(service, renewed["access_token"])
        gone = session.revoke_token(
            endpoint(service, "revocation"), token=renewed["refresh_token"], token_type_hint="refresh_token"
        )
        assert gone.status_code == 200
        assert not works(service, renewed["access_token"])
        with pytest.raises(AuthlibError, match="invalid_grant"):
            session.refresh_token(endpoint(service, "token"), refresh_token=renewed["refresh_token"])


def test_requests_oauthlib_completes_the_flow(service: RunningService, app: App, ada: Person) -> None:
    """oauthlib follows RFC 6749 independently."""
    with OAuth2Session(app.client_id, redirect_uri=CALLBACK, scope=[SCOPE], pkce="S256") as session:
        url, _ = session.authorization_url(endpoint(service, "authorization"))
        answer = callback(ada, url)
        assert urlsplit(answer).path == "/callback"
        token = session.fetch_token(
            endpoint(service, "token"), authorization_response=answer, client_secret=app.client_secret
        )
        assert token["scope"] == [SCOPE]
        assert session.get(f"{service.base_url}/api/v1/me").json()["email"] == "ada@example.test"
        secrets = {"client_id": app.client_id, "client_secret": app.client_secret}
        assert works(service, session.refresh_token(endpoint(service, "token"), **secrets)["access_token"])
        with pytest.raises(OauthlibError, match="invalid_grant"):
            session.refresh_token(endpoint(service, "token"), refresh_token=token["refresh_token"], **secrets)


def test_requests_oauthlib_reads_a_denial(service: RunningService, app: App, ada: Person) -> None:
    with OAuth2Session(app.client_id, redirect_uri=CALLBACK, scope=[SCOPE], pkce="S256") as session:
        url, _ = session.authorization_url(endpoint(service, "authorization"))
        with pytest.raises(OauthlibError, match="denied"):
            session.fetch_token(endpoint(service, "token"), authorization_response=callback(ada, url, press="deny"))
