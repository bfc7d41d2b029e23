"""What a sign-in is refused with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.background import BackgroundTask


@dataclass(frozen=True)
class Refused:
    """The reason why a sign-in was refused, in the words of the page; `afterwards` is done once it is answered."""

    notice: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    afterwards: BackgroundTask | None = None
