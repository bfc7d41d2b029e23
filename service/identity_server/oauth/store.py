"""Stored clients, codes and tokens, and the consequences of reusing them."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from anyio import from_thread, to_thread
from authlib.oauth2.rfc6749.errors import InvalidGrantError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change, record_unattended
from service.auth import lifetimes
from service.identity_server.oauth import queries
from service.identity_server.oauth.models import Client, Code, Request, StoredCode, StoredRefreshToken, Token
from service.identity_server.signin.queries import get_person
from service.platform import secrets
from service.platform.identifiers import to_uuid, uuid7
from service.platform.networks import Sender, current_sender

Given = ParamSpec("Given")
Found = TypeVar("Found")


async def in_thread(work: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """Run Authlib's synchronous work off the event loop; cancelling the request doesn't interrupt it."""
    return await to_thread.run_sync(lambda: work(*args, **kwargs))


class Store:
    """Clients, codes and tokens of a transaction, for Authlib's thread; the first client sets the organization."""

    def __init__(self, connection: Connection, now: datetime, *, named: str) -> None:
        """Start with `named`, the request's client_id, possibly a document's address."""
        self._connection = connection
        self.now = now
        self.named = named

    def ask(
        self,
        query: Callable[Concatenate[Connection, Given], Awaitable[Found]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Found:
        """Run a query on the event loop and block the calling thread until the result is there."""

        async def run() -> Found:
            return await query(self._connection, *args, **kwargs)

        return from_thread.run(run)

    def client(self, client_id: str | None) -> Client | None:
        """Find and lock an approved client by id, a described client only by address, after its host was checked."""
        parsed = to_uuid(client_id or "")
        # UUID() takes braces and capitals, too; a client's id has one spelling.
        is_id = parsed is not None and str(parsed) == client_id
        row = self.ask(queries.enter_by_client, client_id=parsed) if parsed and is_id else None
        if row is None or row.status != "approved" or row.document_url not in {None, self.named}:
            return None
        held = self.ask(queries.lock_client, row.organization_id, client_id=row.client_id)
        return row if held else None

    def is_active(self, client: Client, principal_id: UUID) -> bool:
        person = self.ask(get_person, client.organization_id, principal_id=principal_id)
        return person is not None and person.active

    def code(self, value: str, client: Client) -> Code | None:
        """Return the client's valid code, if any. Raises InvalidGrantError for a used code (see `_refuse_reused`)."""
        secret_hash, client_id = secrets.hash_secret(value), client.client_id
        row = self.ask(queries.lock_code, client.organization_id, secret_hash=secret_hash, client_id=client_id)
        if row is None:
            return None
        if row.used_at is not None:
            raise self._refuse_reused(client, row, row.used_at, what="code")
        return Code(row, client) if row.expires_at > self.now else None

    def refresh_token(self, value: str, client: Client) -> Token | None:
        """Return a client's usable token, if any. Raises InvalidGrantError if revoked or used (`_refuse_reused`)."""
        row = self._refresh_token(value, client)
        if row is None or row.client_id != client.client_id:
            return None
        if row.used_at is not None:
            raise self._refuse_reused(client, row, row.used_at, what="refreshToken")
        if row.revoked_at is not None:
            raise InvalidGrantError(
                "This sign-in has ended. It was revoked, or its token was used twice. Authorize again."
            )
        usable = row.expires_at > self.now
        return Token(row, client) if usable and self.is_active(client, row.principal_id) else None

    def any_token(self, value: str, client: Client) -> Token | None:
        """Find an access or refresh token of any client in the client's organization."""
        if value.startswith(secrets.REFRESH_TOKEN):
            row = self._refresh_token(value, client)
        else:
            secret_hash = secrets.hash_secret(value)
            row = self.ask(queries.find_access_token, client.organization_id, secret_hash=secret_hash)
        return None if row is None else Token(row, client)

    def keep_code(self, value: str, *, client: Client, principal_id: UUID, request: Request) -> None:
        row = {
            "code_id": uuid7(),
            "client_id": client.client_id,
            "principal_id": principal_id,
            "secret_hash": secrets.hash_secret(value),
            "redirect_uri": request.form["redirect_uri"],
            "scopes": list(request.granted),
            "code_challenge": request.form["code_challenge"],
            "expires_at": self.now + lifetimes.CODE,
            "confirmed_at": request.confirmed_at,
            **current_sender().columns,
        }
        self.ask(queries.insert_code, client.organization_id, row=row)

    def begin_family(self, code: Code, client: Client) -> UUID:
        """Mark a code as used, and add a family of tokens. Raises InvalidGrantError for a used code."""
        family_id = uuid7()
        row = {
            "family_id": family_id,
            "client_id": client.client_id,
            "principal_id": code.row.principal_id,
            "scopes": code.row.scopes,
            "created_at": self.now,
            "confirmed_at": code.row.confirmed_at,
            **Sender(code.row.address, code.row.device).columns,
        }
        organization_id = client.organization_id
        self.ask(queries.insert_family, organization_id, row=row)
        if not self.ask(queries.use_code, organization_id, code_id=code.row.code_id, family_id=family_id, now=self.now):
            raise InvalidGrantError("The code was already used. Authorize again.")
        return family_id

    def continue_family(self, token: Token, client: Client) -> UUID:
        """Mark a refresh token as used, and return the family. Raises InvalidGrantError for a used token."""
        organization_id = client.organization_id
        if not self.ask(queries.use_refresh_token, organization_id, token_id=token.row.token_id, now=self.now):
            raise InvalidGrantError("The refresh token was already used. Use the newest one, or authorize again.")
        return token.row.family_id

    def keep_tokens(self, token: Mapping[str, str], *, client: Client, family_id: UUID, principal_id: UUID) -> None:
        access = {
            "token_id": uuid7(),
            "family_id": family_id,
            "client_id": client.client_id,
            "principal_id": principal_id,
            "scopes": token["scope"].split(" "),
            "secret_hash": secrets.hash_secret(token["access_token"]),
            "expires_at": self.now + lifetimes.ACCESS_TOKEN,
        }
        refresh = {
            "token_id": uuid7(),
            "family_id": family_id,
            "secret_hash": secrets.hash_secret(token["refresh_token"]),
            "expires_at": self.now + lifetimes.REFRESH_TOKEN,
        }
        self.ask(queries.insert_tokens, client.organization_id, access=access, refresh=refresh)

    def revoke(self, token: Token, client: Client) -> None:
        """Revoke an access token; for a refresh token, its whole family (RFC 7009, section 2.1)."""
        organization_id = client.organization_id
        if isinstance(token.row, StoredRefreshToken):
            self.ask(queries.revoke_families, organization_id, family_ids=[token.row.family_id], now=self.now)
        else:
            self.ask(queries.revoke_access_token, organization_id, token_id=token.row.token_id, now=self.now)

    def _refresh_token(self, value: str, client: Client) -> StoredRefreshToken | None:
        secret_hash = secrets.hash_secret(value)
        return self.ask(queries.lock_refresh_token, client.organization_id, secret_hash=secret_hash)

    def _refuse_reused(
        self, client: Client, row: StoredCode | StoredRefreshToken, used_at: datetime, *, what: str
    ) -> InvalidGrantError:
        """Return the error for a reused code or token. After RACE, also revoke its sign-in (RFC 6749, 4.1.2)."""
        name = "code" if what == "code" else "refresh token"
        if self.now - used_at <= lifetimes.RACE:
            return InvalidGrantError(
                f"This {name} was used a few seconds ago. Use the tokens of that response; they still work."
            )
        family_ids = [] if row.family_id is None else [row.family_id]
        organization_id = client.organization_id
        if self.ask(queries.revoke_families, organization_id, family_ids=family_ids, now=self.now):
            details = {"clientId": str(client.client_id), "reused": what}
            change = Change("oauth.reuseDetected", "user", row.principal_id, details)
            self.ask(record_unattended, organization_id, change=change)
        return InvalidGrantError(
            f"This {name} was used before, so it may be stolen. All tokens of its sign-in are revoked. Authorize again."
        )
