"""The usual mistakes of a first call: each answer says what was sent, what is expected, and what comes nearest."""

import tomllib
from pathlib import Path
from urllib.parse import unquote_plus

import httpx
import pytest

import carrel

MISTAKES = tomllib.loads((Path(__file__).parents[1] / "data" / "integrator_mistakes.toml").read_text("utf-8"))
ROWS = [(group, name) for group, rows in MISTAKES.items() for name in rows]
OPERATIONS = {"bodies": "catalog/listDocuments", "credentials": "catalog/listDocuments", "forms": "catalog/uploadFile"}
CLIENT = {"name": "App", "redirectUris": ["https://app.example.test/back"], "scopes": ["api:catalog:read"]}


@pytest.fixture(scope="module")
def names(module_service) -> dict[str, str]:
    made = module_service.call("admin/oauthClients/create", CLIENT).json()
    member = module_service.new_user("asks@example.test")
    pending = module_service.call("admin/oauthClients/request", {**CLIENT, "name": "Other"}, api_key=member).json()
    return {
        "key": module_service.api_key,
        "client": made["clientId"],
        "secret": made["clientSecret"],
        "pending": pending["clientId"],
        "id": "0190b6ce-5f3a-7c21-9d4e-2b8f6a1c3d55",
        "address": module_service.base_url.removeprefix("http://"),
    }


def filled(value, names: dict[str, str]):
    if isinstance(value, str):
        for name, meant in names.items():
            value = value.replace("{" + name + "}", meant)
        return value
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    return [filled(each, names) for each in value] if isinstance(value, list) else value


def send(http: httpx.Client, group: str, row: dict) -> httpx.Response:
    to = row.get("to", OPERATIONS.get(group, ""))
    headers = {"Authorization": row["authorization"]} if "authorization" in row else {}
    content: dict = {"json": row.get("json", {})}
    if "body" in row:
        content = {"content": row["body"].encode()}
        headers["Content-Type"] = row["type"]
    elif "parts" in row:
        part = row.get("file", "file")
        texts = {name: (None, text) for name, text in row["parts"].items()}
        content = {"files": {**texts, **({part: ("a.txt", b"Some words.")} if part else {})}}
    elif "form" in row:
        return httpx.post(f"{http.base_url}{to}", data=row["form"])
    elif "query" in row:
        return httpx.get(f"{http.base_url}{to}", params=row["query"])
    return http.request(row.get("method", "POST"), to if to[0] == "/" else f"/api/v0/{to}", headers=headers, **content)


@pytest.mark.parametrize(("group", "name"), ROWS)
def test_the_answer_says_how_to_mend_it(module_service, names, group, name) -> None:
    row = filled(MISTAKES[group][name], names)
    if group == "sdk":
        with pytest.raises(carrel.CarrelError) as raised, carrel.Carrel("k", base_url=row["base_url"]) as client:
            client.admin.organization.get()
        said = str(raised.value)
    else:
        answer = send(module_service.http, group, row)
        said = unquote_plus(answer.headers.get("Location", "")) + answer.text
        assert answer.status_code == row["status"], said
    assert [words for words in row["words"] if words not in said] == [], said
