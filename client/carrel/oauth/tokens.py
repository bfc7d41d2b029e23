"""The tokens of an application, issued by a person's consent."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

# Longer than any token's life, and short enough to be added to a date.
LONGEST_LIFE = 10**9

Credential = Annotated[str, Field(pattern=r"^[\x21-\x7e]+$")]
"""Text allowed in an Authorization header."""


class Tokens(BaseModel):
    """The tokens of a person's consent. `repr` hides secrets; `model_dump_json` and `model_validate_json` keep them.
    `expires_at` (UTC) is the access token's end (None: unknown); `scope` is the granted scope, space-separated."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    access_token: Credential = Field(repr=False)
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a type
    expires_at: Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))] | None = None
    refresh_token: Credential | None = Field(default=None, repr=False)
    scope: str | None = None

    def ends_within(self, span: timedelta) -> bool:
        """Return whether the access token expires within `span`, by the machine's clock."""
        return self.expires_at is not None and self.expires_at - datetime.now(UTC) <= span


class TokenResponse(BaseModel):
    """A response of the token endpoint (RFC 6749, section 5.1)."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    access_token: Credential = Field(repr=False)
    token_type: Annotated[str, Field(pattern="^(?i:bearer)$")]
    expires_in: Annotated[int, Field(ge=0, le=LONGEST_LIFE)] | None = None
    refresh_token: Credential | None = Field(default=None, repr=False)
    scope: str | None = None

    def tokens(self, *, asked_at: datetime, asked: Tokens | None = None, scope: str | None = None) -> Tokens:
        """Return the response's tokens, aged from `asked_at`; refreshed tokens (`asked`) and `scope` fill its gaps."""
        return Tokens(
            access_token=self.access_token,
            expires_at=None if self.expires_in is None else asked_at + timedelta(seconds=self.expires_in),
            refresh_token=self.refresh_token or (asked and asked.refresh_token),
            scope=self.scope or scope or (asked and asked.scope),
        )
