"""Where a request comes from: the address that sent it and the device, as the audit log and sessions keep them."""

import re
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from starlette.requests import HTTPConnection

LONGEST_ADDRESS = 64
# What a browser says of itself is far shorter; a longer text is cut before it is looked through.
LONGEST_USER_AGENT = 512
# By what their User-Agents have and no other's: most browsers also name those that they are built like.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_PROGRAM = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,39}", re.ASCII)


@dataclass(frozen=True)
class Sender:
    """The address and device of a request; None where unknown, and both outside of a request."""

    address: str | None = None
    device: str | None = None

    @property
    def columns(self) -> dict[str, str | None]:
        return asdict(self)


NOBODY = Sender()
_sender: ContextVar[Sender] = ContextVar("carrel_sender", default=NOBODY)


def current_sender() -> Sender:
    """Return the sender of the request being answered."""
    return _sender.get()


def begin_sender(connection: HTTPConnection) -> None:
    """Note the sender of a request; what a trusted proxy forwards for is in the connection's client by now."""
    host = connection.client.host if connection.client else ""
    address = "".join(letter for letter in host[:LONGEST_ADDRESS] if letter.isprintable())
    _sender.set(Sender(address or None, describe_device(connection.headers.get("user-agent", ""))))


def describe_device(user_agent: str) -> str | None:
    """Return what a User-Agent names in few words, such as "Firefox on Windows" or "curl"; None for nothing known."""
    text = user_agent[:LONGEST_USER_AGENT]
    if not text.startswith("Mozilla/"):
        program = _PROGRAM.match(text)
        return program[0] if program else None
    browser = next((name for mark, name in _BROWSERS if mark in text), "A browser")
    system = next((name for mark, name in _SYSTEMS if mark in text), None)
    return f"{browser} on {system}" if system else browser
