"""What is believed of what servers say of themselves: no more than MongoDB's own servers ever say.

A server announces how large its messages may be, and the driver makes room for a whole message once the message's
header has come; it announces the members of its replica set, and the driver watches each. The driver bounds neither,
and has no option for it.
"""

from functools import cache
from itertools import islice
from typing import Any

from pymongo.common import MAX_MESSAGE_SIZE
from pymongo.hello import Hello

# MongoDB's limit for a replica set.
MOST_MEMBERS = 50

_all_hosts = Hello.all_hosts


@cache
def bound_announcements() -> None:
    """Have the driver read announcements within these bounds, in this process, from now on."""
    Hello.max_message_size = property(_max_message_size)  # pyright: ignore[reportAttributeAccessIssue]
    Hello.all_hosts = property(_some_hosts)  # pyright: ignore[reportAttributeAccessIssue]


def _max_message_size(hello: Hello[Any]) -> int:
    told = hello.document.get("maxMessageSizeBytes")
    # No other type: nothing is greater than NaN.
    return min(told, MAX_MESSAGE_SIZE) if isinstance(told, int) else MAX_MESSAGE_SIZE


def _some_hosts(hello: Hello[Any]) -> set[tuple[str, int]]:
    return set(islice(_all_hosts.__get__(hello), MOST_MEMBERS))
