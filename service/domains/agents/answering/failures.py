"""Model failures: codes, and messages with a remedy. Provider text is never repeated, since it may contain the key."""

import math
import tomllib
from pathlib import Path
from traceback import extract_tb

from pydantic_ai import exceptions

from service.domains.agents.answering.models import ModelFailure
from service.platform.logs import logger
from service.text.language_models import WebPageError, refusal_of

SOON = 5
"""Seconds to wait before retrying a temporary failure; longer when a person has to fix the cause first."""

LONGEST_RETRY_AFTER = 3600

SAID = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def failure(name: str, *, retry_after: float | None = None, **values: object) -> ModelFailure:
    """Build the failure `name` of failures.toml; `retry_after` in seconds, at least 1 and at most an hour."""
    said = SAID[name]
    seconds = said["after"] if retry_after is None else max(1, math.ceil(min(retry_after, LONGEST_RETRY_AFTER)))
    return ModelFailure(said["message"].format(**values), code=said["code"], retry_after=seconds)


def failure_of(error: Exception, *, model: str) -> ModelFailure:
    """Return the failure to report for an error in a model's run, and log the safe parts of the error."""
    found = failure(_find_failure_name(error), retry_after=getattr(error, "retry_after", None))
    logger.error(
        "model_failed",
        model=model,
        code=found.code,
        kind=type(error).__name__,
        status=error.status_code if isinstance(error, exceptions.ModelHTTPError) else None,
        at=None if isinstance(error, exceptions.AgentRunError) else _locate(error),
    )
    return found


def _find_failure_name(error: Exception) -> str:
    if isinstance(error, WebPageError):
        return "page"
    if isinstance(error, exceptions.ModelConnectionError):
        return "cut_off" if error.phase == "read" else "unreachable"
    kinds = (name for name in SAID if isinstance(error, getattr(exceptions, name, ())))
    found = refusal_of(error) or next(kinds, "malformed")
    # An UnexpectedModelBehavior with a cause ran out of retries; without a cause, the stream had no valid event.
    return "malformed" if found == "UnexpectedModelBehavior" and error.__cause__ is None else found


def _locate(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
