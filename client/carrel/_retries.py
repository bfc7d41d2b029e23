"""The retry policy: whether to send a request again, and when. Refused, reset, cut and timed-out connections are
retried, and the statuses 408, 429 and 5xx except 501 and 505, which stay, and 507, which needs room first. A 409 is
retried only with Retry-After or a code that says another request is changing the same thing; a taken name
(`collection_name_taken`) is raised at once. A 503 without a reply is raised at once: the service has tried the model
enough, and would answer anew each time. Only a reply in the making is waited for. Every operation can be sent twice:
reads and upserts repeat safely, and creating or sending carries an Idempotency-Key."""

import random
from dataclasses import dataclass, replace

import httpx

from carrel.errors import LONGEST_RETRY_AFTER, APIError

RETRIED_CONFLICTS = frozenset({"concurrent_change"})
RETRIED_STATUSES = frozenset({408, 429})
FINAL_SERVER_ERRORS = frozenset({501, 505, 507})
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 8.0
# Whose pauses are some twenty seconds in all, about what a service takes to start again.
OVER_A_RESTART = 6

# How the codes begin by which v0 says that there is no reply; on v1 the same codes are a failed job's.
NO_REPLY = ("model_", "reply_")
# v0 has waited as long as it does: the reply is still being made.
DELAYED = "reply_delayed"

TRANSIENT = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `max_retries` retries; waits are in seconds."""

    max_retries: int = 2

    def wait_after_answer(self, error: APIError, *, attempt: int) -> float | None:
        """Return how long to wait after an error response to attempt 0, 1, …; None: give up. Retry-After gets a little
        jitter, so that callers don't return together; beyond two minutes the caller decides. A busy service that gives
        it is asked more often."""
        is_busy = error.status == 503 and error.retry_after is not None
        most = self.over_a_restart().max_retries if is_busy else self.max_retries
        if attempt >= most or not is_temporary(error):
            return None
        if error.retry_after is None:
            return backoff(attempt)
        if error.retry_after > LONGEST_RETRY_AFTER:
            return None
        return error.retry_after + random.uniform(0.0, min(0.1 * error.retry_after, 1.0))  # noqa: S311 - jitter

    def wait_after_failure(self, cause: httpx.HTTPError, *, attempt: int) -> float | None:
        """Return how long to wait after attempt 0, 1, … got no response; None: give up."""
        return None if attempt >= self.max_retries or not isinstance(cause, TRANSIENT) else backoff(attempt)

    def wait_after_cut(self, *, cuts: int) -> float | None:
        """Return how long to wait before resuming a stream after 1, 2, … connections that brought nothing."""
        return None if cuts > self.max_retries else backoff(cuts - 1)

    def over_a_restart(self) -> "RetryPolicy":
        """Return the policy for work that survives a restart of the service; without retries if this one has none."""
        return replace(self, max_retries=max(self.max_retries, OVER_A_RESTART)) if self.max_retries else self


def is_temporary(error: APIError) -> bool:
    """Return whether a request with this error may succeed a little later."""
    if error.status == 409:
        return error.code in RETRIED_CONFLICTS or error.retry_after is not None
    if error.status == 503 and error.code.startswith(NO_REPLY):
        return error.code == DELAYED
    return error.status in RETRIED_STATUSES or (error.status >= 500 and error.status not in FINAL_SERVER_ERRORS)


def backoff(attempt: int) -> float:
    """Return the seconds to wait: doubling from a half up to eight, reduced randomly by up to half."""
    return min(FIRST_BACKOFF * 2**attempt, LONGEST_BACKOFF) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
