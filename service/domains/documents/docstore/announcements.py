"""Limits on what database servers announce about themselves: no more than MongoDB's own servers ever announce.

A server announces how large its messages may be, and the driver allocates a whole message once its header has come.
It announces the members of its replica set, and the driver watches each. It says how many times a password is to be
hashed, and the driver does so on the event loop. The driver limits none of these, and has no option for it.
"""

from functools import cache
from itertools import islice
from typing import Any

from pymongo.asynchronous import auth
from pymongo.common import MAX_MESSAGE_SIZE
from pymongo.errors import ProtocolError
from pymongo.hello import Hello

# MongoDB's limit for a replica set.
MOST_MEMBERS = 50
# Several times what MongoDB asks for of itself; so much is hashed in a twentieth of a second.
MOST_ITERATIONS = 100_000

_all_hosts = Hello.all_hosts
# The driver's one place for what a server says while it is authenticated to is private; a test tells if it moves.
_parse_scram = auth._parse_scram_response  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


@cache
def bound_announcements() -> None:
    """Apply these limits to everything the driver reads in this process from now on."""
    Hello.max_message_size = property(_max_message_size)  # pyright: ignore[reportAttributeAccessIssue]
    Hello.all_hosts = property(_some_hosts)  # pyright: ignore[reportAttributeAccessIssue]
    auth._parse_scram_response = _few_iterations  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


def _max_message_size(hello: Hello[Any]) -> int:
    told = hello.document.get("maxMessageSizeBytes")
    # No other type: nothing is greater than NaN.
    return min(told, MAX_MESSAGE_SIZE) if isinstance(told, int) else MAX_MESSAGE_SIZE


def _some_hosts(hello: Hello[Any]) -> set[tuple[str, int]]:
    return set(islice(_all_hosts.__get__(hello), MOST_MEMBERS))


def _few_iterations(response: bytes) -> dict[bytes, bytes]:
    parsed = _parse_scram(response)
    if int(parsed.get(b"i", b"0")) > MOST_ITERATIONS:
        raise ProtocolError("The server wants the password hashed more often than any does.")
    return parsed
