"""The SDK as an application in a test, in either mode, with the number of token requests."""

import inspect
import json
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from carrel import AsyncCarrel, Carrel
from carrel.oauth import AsyncOAuthClient, MemoryTokenStore, OAuthClient, Tokens, TokenStore
from tests.harness.services import RunningService
from tests.oauth.flow import SCOPE, App, Page, Person

TOKEN_REQUEST = re.compile(
    r'^carrel_requests_total\{method="POST",route="/api/oauth/token",status="(\d+)"\} (\d+)', re.MULTILINE
)
LONGEST_SECONDS = 60
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass
class Application:
    app: App
    is_async: bool
    made: list[Any] = field(default_factory=list)

    def client(self, **options: Any) -> Any:
        kind = AsyncOAuthClient if self.is_async else OAuthClient
        values: dict[str, Any] = {"redirect_uri": self.app.redirect_uri, "scopes": [SCOPE]}
        values |= {"auth_url": self.app.service.base_url} | options
        secret = values.pop("client_secret", self.app.client_secret)
        return self.keep(kind(self.app.client_id, secret, **values))

    def keep(self, client: Any) -> Any:
        self.made.append(client)
        return client

    async def __call__(self, result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    async def signed_in(self, person: Person, **options: Any) -> tuple[Any, Tokens]:
        client = self.client(**options)
        request = client.authorization_request()
        return client, await self(client.exchange(callback(person, request.url), request))

    def api(self, **options: Any) -> Any:
        kind = AsyncCarrel if self.is_async else Carrel
        return self.keep(kind(base_url=self.app.service.base_url, **options))

    async def acting_for(self, person: Person, *, has_ended: bool = False, **options: Any) -> tuple[Any, TokenStore]:
        oauth, tokens = await self.signed_in(person, **options)
        store = MemoryTokenStore()
        store.put("ada", ended(tokens) if has_ended else tokens)
        return self.api(tokens=oauth.token_source(store, "ada")), store

    async def close(self) -> None:
        for client in self.made:
            await self(client.close())


def callback(person: Person, url: str, press: str = "allow") -> str:
    page = person.follow(person.http.get(url))
    if page.status_code == 200 and Page(page).forms[0].buttons == ["signIn"]:
        page = person.sign_in(page)
    return (person.press(page, press) if page.status_code == 200 else page).headers["Location"]


def run_script(folder: Path, person: Person, *options: str) -> dict[str, Any]:
    command, piped = ["node", "flow.mjs", *options], subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=piped, stdout=piped, stderr=piped, text=True) as process:
        assert process.stdout
        limit = threading.Timer(LONGEST_SECONDS, process.kill)
        limit.start()
        sent_to = process.stdout.readline().strip()
        answer = callback(person, sent_to) if sent_to else ""
        output, errors = process.communicate(f"{answer}\n")
        limit.cancel()
    assert process.returncode == 0, errors
    return json.loads(output)


def token_requests(service: RunningService) -> list[int]:
    return sorted(
        int(status)
        for status, count in TOKEN_REQUEST.findall(service.http.get("/metrics").text)
        for _ in range(int(count))
    )


def newly(service: RunningService, before: list[int]) -> list[int]:
    after = token_requests(service)
    for status in before:
        after.remove(status)
    return after


def newly_by(service: RunningService, do: Callable[[], Any]) -> list[int]:
    before = token_requests(service)
    do()
    return newly(service, before)


def ended(tokens: Tokens) -> Tokens:
    return tokens.model_copy(update={"expires_at": LONG_AGO})
