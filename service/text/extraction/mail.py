"""E-mail messages, alone or in a mailbox: sender, recipients, date, subject, body; of attachments only their names."""

import re
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.decoding import decode
from service.text.extraction.failures import Unreadable, corrupt_file, without_text
from service.text.extraction.html_pages import add_html
from service.text.extraction.plain import add_paragraphs

_HEADERS = ("From", "To", "Cc", "Date")
# Parts that hold the encrypted rest, and those that only prove or repeat what is said.
_ENCRYPTED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_BESIDE = _ENCRYPTED | _SIGNATURES | {"application/pgp-encrypted"}
_HALVES = ("plain", "html")
_WORDS = re.compile(r"\w+")
# A line "From …" begins a message only where headers follow it: in bodies, many programs don't mark it.
_SEPARATOR = re.compile(rb"(?:\A|(?<=\n)\r?\n)From [^\n]*\n(?=[!-9;-~]+:)")
_MARKED = re.compile(rb"^>(>*From )", re.MULTILINE)


def parse_mail(data: bytes, builder: BlockBuilder, where: str = "") -> str | None:
    """Add a message, which is at a place of its file; its title is its subject."""
    message = BytesParser(policy=policy.default).parsebytes(data)
    if not any(name in message for name in ("From", "Date", "Subject")):
        raise corrupt_file("an e-mail message")
    subject = one_line(_header(message, "Subject"))
    builder.heading(subject, 1)
    builder.lines("\n".join(f"{name}: {_header(message, name)}" for name in _HEADERS if name in message))
    before = len(builder.blocks)
    _add_body(message, builder)
    names = _leave_out_parts(message, builder, where)
    if len(builder.blocks) == before and not subject and not names:
        raise without_text("The message has neither a subject nor a text. Send what it carries as files of their own.")
    builder.paragraph("Attachments: " + ", ".join(names) if names else "")
    return subject or None


def parse_mailbox(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the messages of a mailbox (mbox), one after another, and return None: a mailbox has no title."""
    first, *messages = _SEPARATOR.split(data)
    if first.strip() or not messages:
        raise corrupt_file("a mailbox")
    for number, message in enumerate(messages, start=1):
        try:
            parse_mail(_MARKED.sub(rb"\1", message), builder, f"message {number}")
        except Unreadable as refusal:
            if refusal.code != "file_without_text":
                raise


def _add_body(message: EmailMessage, builder: BlockBuilder) -> None:
    """Add the plain half of the body, then what only the HTML half says; without a plain half, all of the HTML half."""
    halves = (_content(body) if isinstance(body := message.get_body((kind,)), EmailMessage) else "" for kind in _HALVES)
    plain, html = halves
    add_paragraphs(plain, builder)
    if not html.strip():
        return
    page = BlockBuilder(builder.limits)
    add_html(html, page)
    said = set(_WORDS.findall(plain.casefold()))
    for block in page.blocks:
        if not said.issuperset(_WORDS.findall(block.text.casefold())):
            builder.add(block)


def _leave_out_parts(message: EmailMessage, builder: BlockBuilder, where: str) -> list[str]:
    """Note what a message carries beside its body, and return the names of its attachments."""
    bodies = [message.get_body((kind,)) for kind in _HALVES]
    attached = list(message.iter_attachments())
    known = {id(part) for part in attached}
    for part in message.walk():
        if part.get_content_type() in _ENCRYPTED and part.get_param("smime-type") != "signed-data":
            builder.leave_out(NotReadKind.ENCRYPTED, where)
        elif part.get_content_maintype() == "image" and id(part) not in known:
            builder.leave_out(NotReadKind.PICTURE, where)
    for part in attached:
        if part.get_content_type() not in _BESIDE and not any(part is body for body in bodies):
            builder.leave_out(NotReadKind.ATTACHMENT, where)
    return [name for part in attached if (name := part.get_filename())]


def _content(part: EmailMessage) -> str:
    """Return a part's text; if its declared encoding is unknown or wrong, decoded like any text file."""
    try:
        return str(part.get_content(errors="strict"))
    except (LookupError, UnicodeError, ValueError, AssertionError):
        payload = part.get_payload(decode=True)
        return decode(payload) if isinstance(payload, bytes) else ""


def _header(message: EmailMessage, name: str) -> str:
    """Return a header's decoded text; the standard library raises many things on broken ones."""
    try:
        return str(message[name] or "")
    except (ValueError, LookupError, AttributeError, TypeError):
        return ""
