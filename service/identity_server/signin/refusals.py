"""What a sign-in is refused with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.background import BackgroundTask

from service.identity_server.signin.attempts import Attempt, record_failure
from service.platform.errors import TooMany
from service.runtime import Runtime


@dataclass(frozen=True)
class Refused:
    """The reason why a sign-in was refused, in the words of the page; `afterwards` is done once it is answered."""

    notice: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    afterwards: BackgroundTask | None = None


def refuse_wrong(runtime: Runtime, attempt: Attempt, notice: str) -> Refused:
    """Refuse an attempt whose password or code was wrong, and have it recorded once it is answered."""
    return Refused(notice, 403, afterwards=BackgroundTask(record_failure, runtime, attempt, was_made=True))


def refuse_waiting(runtime: Runtime, attempt: Attempt, error: TooMany) -> Refused:
    """Refuse an attempt that has to wait and was not made, and have it recorded once it is answered."""
    recording = BackgroundTask(record_failure, runtime, attempt, was_made=False)
    return Refused(error.message, error.status, error.headers, recording)
