"""Model failures: codes, and messages that say what to do, without a provider's words, which may hold the key."""

import math

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)

from service.domains.agents.answering.models import ModelFailure
from service.platform.logs import logger
from service.text.language_models import exceeds_context

SOON = 5
LATER = 60
"""Seconds after which trying again makes sense: when something may pass, and when somebody has to mend it first."""

LONGEST_RETRY_AFTER = 3600

_OPERATOR = "Tell the person who runs this service: "

# The most particular kind first; the first one that fits counts.
_KINDS: tuple[tuple[type[Exception], str, str, int], ...] = (
    (
        ModelAuthenticationError,
        "model_key_refused",
        f"The model's endpoint refused the service's key. {_OPERATOR}CARREL_MODEL_API_KEY.",
        LATER,
    ),
    (
        ModelNotFoundError,
        "model_not_found",
        f"The model's endpoint doesn't know the model. Choose another for the agent. {_OPERATOR}CARREL_MODEL_NAMES.",
        LATER,
    ),
    (
        ModelContextWindowExceededError,
        "model_context_too_long",
        "The message is more than the model can read. Send a shorter one, or begin a new conversation.",
        SOON,
    ),
    (
        ModelQuotaExceededError,
        "model_quota_exceeded",
        f"The service's quota at the model's endpoint is used up. {_OPERATOR}its account there.",
        LATER,
    ),
    (
        ModelRateLimitError,
        "model_rate_limited",
        "The model's endpoint takes no more requests for now. Send the message again later.",
        SOON,
    ),
    (
        ModelOverloadedError,
        "model_overloaded",
        "The model's endpoint is overloaded. Send the message again later.",
        SOON,
    ),
    (
        ModelUnavailableError,
        "model_unavailable",
        "The model's endpoint is unavailable for now. Send the message again later.",
        SOON,
    ),
    (ModelServerError, "model_server_error", "The model's endpoint failed. Send the message again.", SOON),
    (
        ModelRequestRejectedError,
        "model_request_rejected",
        "The model's endpoint refused the request. Choose another model for the agent, or word the message otherwise.",
        LATER,
    ),
    (
        ContentFilterError,
        "model_content_filtered",
        "The model's endpoint refused to answer this. Word the message otherwise.",
        SOON,
    ),
    (
        OutputTokenLimitExceeded,
        "model_reply_too_long",
        "The model reached its longest length before it had a reply. Ask something narrower.",
        SOON,
    ),
    (
        UsageLimitExceeded,
        "model_too_many_steps",
        "The model searched again and again without a reply. Ask something narrower.",
        SOON,
    ),
    (
        UnexpectedModelBehavior,
        "model_too_many_steps",
        "The model kept asking for what there isn't. Ask something narrower, or choose another one for the agent.",
        SOON,
    ),
)


def failure_of(error: Exception, *, model: str) -> ModelFailure:
    """Return the failure to report for an error in a model's run; log what may be known of the error."""
    failure = _connection(error) or _match_failure(error) or _malformed()
    logger.error(
        "model_failed",
        model=model,
        code=failure.code,
        kind=type(error).__name__,
        status=error.status_code if isinstance(error, ModelHTTPError) else None,
        at=None if isinstance(error, AgentRunError) else _locate(error),
    )
    return failure


def model_timed_out(seconds: float) -> ModelFailure:
    """Build the failure of a reply that took too long."""
    return ModelFailure(
        f"There was no reply within {seconds:g} seconds. Send the message again, or ask something narrower.",
        code="model_timeout",
        retry_after=SOON,
    )


def model_not_configured() -> ModelFailure:
    """Build the failure of an agent with a model that isn't configured (any more)."""
    return ModelFailure(
        "The agent's model is not one of this service's any more. Ask an admin to choose another one for it.",
        code="model_not_configured",
        retry_after=LATER,
    )


def empty_reply() -> ModelFailure:
    """Build the failure of a model that said nothing that can be shown."""
    return ModelFailure(
        "The model replied with nothing. Send the message again, or word it otherwise.",
        code="model_reply_empty",
        retry_after=SOON,
    )


def endless_reply() -> ModelFailure:
    """Build the failure of a model that doesn't stop."""
    return ModelFailure(
        "The model's reply was longer than any can be. Ask something narrower.",
        code="model_reply_too_long",
        retry_after=SOON,
    )


def _connection(error: Exception) -> ModelFailure | None:
    if not isinstance(error, ModelConnectionError):
        return None
    if error.phase == "read":
        message, code = "The connection to the model's endpoint broke off. Send the message again.", "model_cut_off"
    else:
        message = f"The model's endpoint can't be reached. Send the message again later. {_OPERATOR}CARREL_MODEL_URL."
        code = "model_unreachable"
    return ModelFailure(message, code=code, retry_after=SOON)


def _match_failure(error: Exception) -> ModelFailure | None:
    for kind, code, message, seconds in _KINDS:
        if isinstance(error, kind) or (kind is ModelContextWindowExceededError and exceeds_context(error)):
            return ModelFailure(message, code=code, retry_after=_retry_after(error) or seconds)
    return None


def _retry_after(error: Exception) -> int | None:
    seconds = error.retry_after if isinstance(error, ModelAPIError) else None
    return None if seconds is None else max(1, math.ceil(min(seconds, LONGEST_RETRY_AFTER)))


def _malformed() -> ModelFailure:
    return ModelFailure(
        f"The model's endpoint answered with something that is no reply. Send the message again. {_OPERATOR}"
        "CARREL_MODEL_URL and CARREL_MODEL_NAMES.",
        code="model_reply_malformed",
        retry_after=SOON,
    )


def _locate(error: Exception) -> str:
    """Return the code line where an error arose, without the values that caused it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
