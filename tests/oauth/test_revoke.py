"""The revocation endpoint (RFC 7009) and the server's metadata (RFC 8414)."""

import httpx
import pytest
from authlib.oauth2 import rfc8414, rfc9207

from tests.oauth.flow import App, Person, an_app, error, works
from tests.service.directory import another_organization, done


@pytest.mark.parametrize("hint", [None, "refresh_token", "access_token", "something_else"])
def test_revoking_a_refresh_token_stops_all_its_family_has(standing, hint: str | None) -> None:
    """Access tokens too (section 2.1); whatever the hint says, since a token shows what it is."""
    app, ada = standing.app, standing.person()
    other, tokens = ada.tokens(app), ada.tokens(app)
    answer = app.revoke(tokens["refresh_token"], token_type_hint=hint)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert not works(standing.service, tokens["access_token"])
    assert error(app.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert works(standing.service, other["access_token"])


def test_revoking_an_access_token_stops_it_alone(standing) -> None:
    app = standing.app
    tokens = standing.person().tokens(app)
    assert app.revoke(tokens["access_token"]).status_code == 200
    assert not works(standing.service, tokens["access_token"])
    assert works(standing.service, done(app.refresh(tokens["refresh_token"]))["access_token"])


def test_revoking_what_there_is_not_is_no_error(standing) -> None:
    """Section 2.2: the client couldn't do anything about it."""
    app = standing.app
    tokens = standing.person().tokens(app)
    assert app.revoke(tokens["refresh_token"]).status_code == 200
    for value in (tokens["refresh_token"], "svc_rt_unknown", "svc_at_unknown", "x", "\0", "x" * 10_000):
        assert app.revoke(value).status_code == 200


def test_a_client_revokes_its_own_tokens_alone(service, app: App, ada: Person) -> None:
    """Another client's is refused, and one of another organization unknown; both go on working."""
    other, elsewhere = an_app(service), an_app(service, api_key=another_organization(service))
    tokens = ada.tokens(app)
    for value in (tokens["refresh_token"], tokens["access_token"]):
        assert error(other.revoke(value)) == (400, "invalid_grant")
        assert elsewhere.revoke(value).status_code == 200
    assert works(service, tokens["access_token"])
    done(app.refresh(tokens["refresh_token"]))


def test_revoking_needs_the_client_to_prove_itself(standing) -> None:
    app = standing.app
    tokens = standing.person().tokens(app)
    assert error(app.revoke(tokens["refresh_token"], client_secret="svc_cs_wrong")) == (401, "invalid_client")
    assert error(app.revoke(tokens["refresh_token"], client_secret=None)) == (401, "invalid_client")
    assert error(app.post("revoke")) == (400, "invalid_request")
    assert works(standing.service, tokens["access_token"])


def test_the_metadata_is_valid_and_true(standing) -> None:
    """RFC 8414, section 2: Authlib's validation passes, and every endpoint it names is there."""
    metadata = httpx.get(f"{standing.service.base_url}/.well-known/oauth-authorization-server").json()
    document = rfc8414.AuthorizationServerMetadata(metadata)
    for key in ("issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        assert metadata[key].startswith(standing.service.base_url)
    del document["issuer"]  # must be https, which a test on loopback isn't
    for key in document.REGISTRY_KEYS:
        if key != "issuer" and not key.endswith("_endpoint"):
            getattr(document, f"validate_{key}")()
    assert rfc9207.AuthorizationServerMetadata(metadata)["authorization_response_iss_parameter_supported"] is True
    assert metadata["issuer"] == standing.service.base_url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post", "none"]
    assert httpx.get(metadata["authorization_endpoint"]).status_code == 400
    assert httpx.post(metadata["token_endpoint"], data={"grant_type": "x"}).status_code == 400
    assert httpx.post(metadata["revocation_endpoint"], data={"token": "x"}).status_code == 401


def test_an_issuer_with_a_path_has_its_metadata_after_the_well_known_part(make_service) -> None:
    service = make_service(public_url="https://carrel.example.test/base")
    found = service.http.get("/.well-known/oauth-authorization-server/base")
    assert found.json()["issuer"] == "https://carrel.example.test/base"
    assert found.json()["token_endpoint"] == "https://carrel.example.test/base/api/oauth/token"
    assert service.http.get("/.well-known/oauth-authorization-server/elsewhere").status_code == 404
