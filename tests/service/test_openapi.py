"""The descriptions of the API, as a running service gives them."""

from tests.harness.services import RunningService


def test_the_descriptions_and_their_page_need_no_credential(module_service: RunningService) -> None:
    http, stranger = module_service.http, {"Authorization": ""}
    paths = {
        address: http.get(address, headers=stranger).json()["paths"].keys()
        for address in ("/openapi.json", "/api/v0/openapi.json", "/api/v1/openapi.json")
    }
    whole, v0, v1 = paths.values()
    assert v0 | v1 < whole
    assert all(path.startswith("/api/v0/") for path in v0)
    assert {"/api/v1/me", "/api/oauth/token"} < v1
    page = http.get("/docs", headers=stranger)
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for asset in ("docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/start.js"):
        assert asset in page.text
        assert http.get(f"/{asset}", headers=stranger).status_code == 200
    assert "http:" not in page.text
    assert "https:" not in page.text
