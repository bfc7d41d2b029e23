"""Mail: plain text about an alert, to one person."""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import UUID

from opentelemetry.trace import SpanKind

from carrel.wire.oauth_clients import LOOPBACK
from service.alerting.sending.webhooks import Attempt
from service.alerting.wording import one_line, subject_of, text_of
from service.platform import traces
from service.platform.settings import Settings

SECONDS = 20.0
_LABELS: Mapping[str, str] = {
    "name": "What",
    "flow": "Run",
    "documentCount": "Documents",
    "quarantinedCount": "Not loaded",
    "beganAt": "Since",
    "endedAt": "Until",
    "link": "Look at it",
}


async def send_mail(settings: Settings, message: Mapping[str, Any], *, to: str, delivery_id: UUID) -> Attempt:
    if settings.smtp_url is None or settings.mail_from is None:
        return Attempt(error="The service has no mail server: an operator sets CARREL_SMTP_URL and CARREL_MAIL_FROM.")
    try:
        mail = _compose(message, sender=settings.mail_from, to=to, delivery_id=delivery_id)
    except (HeaderParseError, ValueError, IndexError):
        return Attempt(error="Mail can't be sent to such an address.", is_last=True)
    url = urlsplit(settings.smtp_url.get_secret_value())
    try:
        with traces.span("send mail", {"server.address": url.hostname or ""}, kind=SpanKind.CLIENT):
            await asyncio.to_thread(_send, mail, url)
    except (OSError, smtplib.SMTPException) as error:
        return Attempt(error=_say(error))
    return Attempt()


def _say(error: OSError) -> str:
    """Say why a mail was not taken, without what the server says, which may repeat anything."""
    match error:
        case smtplib.SMTPResponseException():
            return f"The mail server answers {error.smtp_code}."
        case smtplib.SMTPRecipientsRefused():
            return "The mail server takes nothing for this address."
        case smtplib.SMTPNotSupportedError():
            return "The mail server offers no TLS, no sign-in, or no such addresses."
        case ssl.SSLError():
            return "The mail server's certificate is not trusted, or it speaks no TLS."
        case _:
            return "The mail server doesn't answer."


def _compose(message: Mapping[str, Any], *, sender: str, to: str, delivery_id: UUID) -> EmailMessage:
    """Write a mail; a header takes no line break, so that nothing of a name becomes another header."""
    mail = EmailMessage()
    mail["From"] = Address(addr_spec=sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = one_line(subject_of(message), most=200)
    mail["Date"] = formatdate(usegmt=True)
    # The same for every attempt: what comes twice is known for it.
    mail["Message-ID"] = f"<{delivery_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_text(message))
    return mail


def _text(message: Mapping[str, Any]) -> str:
    data = message["data"]
    lines = [f"{label}: {one_line(str(data[name]), most=4096)}" for name, label in _LABELS.items() if name in data]
    why = f"An admin of {one_line(data['organization']['name'], most=200)} has chosen you to be told."
    return "\n".join([text_of(message), "", *lines, "", why, ""])


def _send(mail: EmailMessage, url: SplitResult) -> None:
    host, tls = url.hostname or "", ssl.create_default_context()
    if url.scheme == "smtps":
        server = smtplib.SMTP_SSL(host, url.port or 465, timeout=SECONDS, context=tls)
    else:
        server = smtplib.SMTP(host, url.port or 587, timeout=SECONDS)
    with server:
        server.ehlo()
        if url.scheme == "smtp" and (host not in LOOPBACK or server.has_extn("starttls")):
            server.starttls(context=tls)
        if url.username:
            server.login(unquote(url.username), unquote(url.password or ""))
        server.send_message(mail)
