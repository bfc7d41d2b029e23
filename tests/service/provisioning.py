"""An identity provider for tests: a token, and SCIM requests as bodies and statuses."""

import httpx

from tests.harness.services import RunningService
from tests.service.directory import done

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Provider:
    def __init__(self, service: RunningService, *, api_key: str | None = None) -> None:
        made = done(service.call("admin/scimTokens/create", {"name": "Entra"}, api_key=api_key))
        self.token, self.token_id = made["token"], made["tokenId"]
        self.http = service.http

    def send(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/scim+json", **headers}
        return self.http.request(method, f"/scim/v2/{path}", json=body, headers=sent)

    def user(self, email: str, **body) -> dict:
        return created(self.send("POST", "Users", {"schemas": [USER], "userName": email, **body}))

    def group(self, name: str, *members: dict, **body) -> dict:
        listed = [{"value": one["id"]} for one in members]
        return created(
            self.send("POST", "Groups", {"schemas": [GROUP], "displayName": name, "members": listed, **body})
        )

    def patch(self, path: str, *operations: dict, member: str = "Operations", **headers: str) -> httpx.Response:
        return self.send("PATCH", path, {"schemas": [PATCH], member: list(operations)}, **headers)

    def find(self, kind: str, **query: str | int) -> dict:
        return done(self.http.get(f"/scim/v2/{kind}", params=query, headers={"Authorization": f"Bearer {self.token}"}))


def created(response: httpx.Response) -> dict:
    assert response.status_code == 201, response.text
    return response.json()


def refusal(response: httpx.Response) -> tuple[int, str | None]:
    body = response.json()
    assert response.headers["content-type"] == "application/scim+json"
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert body["status"] == str(response.status_code)
    assert body["detail"]
    return response.status_code, body.get("scimType")
