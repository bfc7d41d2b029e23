"""Receivers of alerts on loopback: an HTTP server and an SMTP server."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.controller import Controller

from tests.harness.http_servers import Handler, serving


@dataclass
class Receiver:
    """The received posts, and the answers to the next posts (default: 200)."""

    url: str = ""
    posts: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.open.set()


@contextmanager
def receiving() -> Generator[Receiver]:
    receiver = Receiver()

    class Posts(Handler):
        def answer(self, body: bytes) -> None:
            receiver.posts.append(({name.lower(): value for name, value in self.headers.items()}, body))
            receiver.open.wait(30)
            status = receiver.answers.pop(0) if receiver.answers else 200
            self.respond(status, f"Answer {status}".encode(), Location=receiver.url)

    with serving(Posts) as url:
        receiver.url = f"{url}/carrel"
        try:
            yield receiver
        finally:
            receiver.open.set()


@dataclass
class Mailbox:
    """The received mails, with envelope addresses."""

    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _server: object, _session: object, envelope) -> str:  # noqa: N802 - the library's
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((list(envelope.rcpt_tos), mail))
        return "250 OK"


@contextmanager
def mail_server(host: str = "127.0.0.1") -> Generator[tuple[Mailbox, str]]:
    mailbox = Mailbox()
    with socket.socket() as one:  # the library can't take port 0
        one.bind((host, 0))
        port = one.getsockname()[1]
    controller = Controller(mailbox, hostname=host, port=port)
    controller.start()
    try:
        yield mailbox, f"smtp://{host}:{port}"
    finally:
        controller.stop()
