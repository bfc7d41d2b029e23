"""Rules for every credential created by an admin."""

from datetime import UTC, datetime

from service.platform.errors import BadRequest, FieldError


def refuse_past(expires_at: datetime | None) -> None:
    """Raise 400 `expiry_past` for an expiry in the past."""
    if expires_at is not None and expires_at <= datetime.now(UTC):
        details = [FieldError("expiresAt", "must lie in the future")]
        raise BadRequest("expiresAt: must lie in the future.", code="expiry_past", details=details)
