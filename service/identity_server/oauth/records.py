"""Stored clients, consents, codes and tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ReadableCollection:
    """A collection readable by the person."""

    collection_id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A code; if used, with the id of its family of tokens."""

    code_id: UUID
    principal_id: UUID
    redirect_uri: str
    scopes: Sequence[str]
    code_challenge: str
    expires_at: datetime
    used_at: datetime | None
    family_id: UUID | None
    address: str | None
    device: str | None
    confirmed_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredToken:
    """An access or refresh token."""

    token_id: UUID
    family_id: UUID
    client_id: UUID
    principal_id: UUID
    scopes: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredRefreshToken(StoredToken):
    """A refresh token; `revoked_at` is the time its family was revoked."""

    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None
