"""Mail: plain text, to one person, by the mail server of the settings."""

import asyncio
import smtplib
import ssl
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import UUID

from opentelemetry.trace import SpanKind

from carrel.wire.oauth_clients import LOOPBACK
from service.platform import traces
from service.platform.settings import Settings

SECONDS = 20.0
UNFIT = "Mail can't be sent to this address."


async def send(settings: Settings, *, to: str, subject: str, text: str, mail_id: UUID) -> str | None:
    """Send a mail; return None, or a sentence that says why it was not sent. A repeated mail needs an equal id."""
    if settings.smtp_url is None or settings.mail_from is None:
        return "The service has no mail server. Ask an operator to set CARREL_SMTP_URL and CARREL_MAIL_FROM."
    mail = EmailMessage()
    try:
        # Address refuses line breaks, so that no name can add a header.
        mail["From"] = Address(addr_spec=settings.mail_from)
        mail["To"] = Address(addr_spec=to)
        mail["Subject"] = subject
    except (HeaderParseError, ValueError, IndexError):
        return UNFIT
    mail["Date"] = formatdate(usegmt=True)
    mail["Message-ID"] = f"<{mail_id}@{settings.mail_from.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text)
    url = urlsplit(settings.smtp_url.get_secret_value())
    try:
        with traces.span("send mail", {"server.address": url.hostname or ""}, kind=SpanKind.CLIENT):
            await asyncio.to_thread(_send, mail, url)
    except (OSError, smtplib.SMTPException) as error:
        return _explain(error)
    return None


def _explain(error: OSError) -> str:
    """Return why a mail was refused, without the server's own text: the text could contain secrets."""
    match error:
        case smtplib.SMTPResponseException():
            return f"The mail server answered with code {error.smtp_code}."
        case smtplib.SMTPRecipientsRefused():
            return "The mail server refused this address."
        case smtplib.SMTPNotSupportedError():
            return "The mail server does not support TLS, sign-in, or such addresses."
        case ssl.SSLError():
            return "The mail server's certificate is not trusted, or it has no TLS."
        case _:
            return "The mail server did not answer."


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
