"""The SDK as an application in a test: in either mode, and how often the service was asked for tokens."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from carrel.oauth import AsyncOAuthClient, OAuthClient, Tokens
from tests.harness.services import RunningService
from tests.oauth.flow import SCOPE, App, Page, Person

TOKEN_REQUEST = re.compile(
    r'^carrel_requests_total\{method="POST",route="/api/oauth/token",status="(\d+)"\} (\d+)', re.MULTILINE
)
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass
class Application:
    """A registered client that uses the SDK, blocking or awaiting."""

    app: App
    is_async: bool
    made: list[Any] = field(default_factory=list)

    def client(self, **options: Any) -> Any:
        """An OAuth client of the application's, in its mode."""
        kind = AsyncOAuthClient if self.is_async else OAuthClient
        values: dict[str, Any] = {"redirect_uri": self.app.redirect_uri, "scopes": [SCOPE]}
        values |= {"auth_url": self.app.service.base_url} | options
        secret = values.pop("client_secret", self.app.client_secret)
        return self.keep(kind(self.app.client_id, secret, **values))

    def keep(self, client: Any) -> Any:
        """Have a client closed with the application."""
        self.made.append(client)
        return client

    async def __call__(self, result: Any) -> Any:
        """What an operation comes to, in either mode."""
        return await result if inspect.isawaitable(result) else result

    async def signed_in(self, person: Person, **options: Any) -> tuple[Any, Tokens]:
        """A client, and the tokens of a person who allows what it asks."""
        client = self.client(**options)
        request = client.authorization_request()
        return client, await self(client.exchange(callback(person, request.url), request))

    async def close(self) -> None:
        """Close what was made."""
        for client in self.made:
            await self(client.close())


def callback(person: Person, url: str, press: str = "allow") -> str:
    """The address a person's browser comes back with, from the address an application sent it to."""
    page = person.follow(person.http.get(url))
    if page.status_code == 200 and Page(page).forms[0].buttons == ["signIn"]:
        page = person.sign_in(page)
    return (person.press(page, press) if page.status_code == 200 else page).headers["Location"]


def token_requests(service: RunningService) -> list[int]:
    """The statuses the token endpoint has answered with so far, one for each request, by the service's own count."""
    return sorted(
        int(status)
        for status, count in TOKEN_REQUEST.findall(service.http.get("/metrics").text)
        for _ in range(int(count))
    )


def newly(service: RunningService, do: Callable[[], Any]) -> list[int]:
    """The statuses the token endpoint answers with meanwhile."""
    before = token_requests(service)
    do()
    after = token_requests(service)
    for status in before:
        after.remove(status)
    return after


def ended(tokens: Tokens) -> Tokens:
    """The tokens as they are an hour later, by the application's clock."""
    return tokens.model_copy(update={"expires_at": LONG_AGO})
