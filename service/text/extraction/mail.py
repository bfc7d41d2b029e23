"""E-mail, single or in a mailbox: headers, body, attachments' names. Text quoted from earlier mails isn't indexed."""

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from email.message import EmailMessage
from functools import partial
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder, clean, one_line
from service.text.extraction.failures import Unreadable, corrupt_file, without_text
from service.text.extraction.html_pages import add_html, find_data_uris, parse_html
from service.text.extraction.mime import ENVELOPES, TNEF_MARK, to_message, to_narrow
from service.text.extraction.names import decode_body
from service.text.extraction.plain import add_paragraphs
from service.text.extraction.svg import find_drawings, is_svg

_RULES = tomllib.loads(Path(__file__).with_name("quotes.toml").read_text("utf-8"))
_CLASSES = frozenset(_RULES["classes"])
_QUOTE_WORDS = {name: f"(?:{'|'.join(words)})" for name, words in _RULES["words"].items()}
_RULE = {name: re.compile(pattern % _QUOTE_WORDS, re.IGNORECASE) for name, pattern in _RULES["patterns"].items()}
_INTRO_LINES, _INTRO_CHARACTERS, _HEADER_LINES, _HEADER_CHARACTERS, _QUESTION_LINES = 3, 400, 8, 2_000, 4


def is_quote(element: Any) -> bool:
    """Return whether a mail program marked an HTML element as quoted text, without answers inside."""
    is_marked = not _CLASSES.isdisjoint((element.get("class") or "").split())
    if element.tag == "blockquote":
        return is_marked or element.get("type") == "cite"
    return is_marked and element.tag == "div" and element.find(".//blockquote") is None


def find_quoted(lines: Sequence[str], in_html: Sequence[bool] = (), *, subject: str, is_reply: bool) -> list[bool]:
    """Return for each line whether it is quoted; for HTML, lines are paragraphs, with `in_html` from `is_quote`."""
    # Some mailboxes mark lines that begin with "From …" like quoted lines.
    cited = in_html or [line.startswith(">") and not line.startswith(">From ") for line in lines]
    quoted, at, follows, answers = [False] * len(lines), 0, False, _RULE["reply"].match(subject) is not None
    heads, is_sure = [line[:_HEADER_CHARACTERS] for line in lines], is_reply or answers or bool(in_html)
    while at < len(lines) and ((cited[at] and follows) or not _RULE["forwarded"].match(heads[at])):
        count = 0 if cited[at] else _count_intro(heads[at : at + _INTRO_LINES])
        after = next((to for to in range(at + count, len(lines)) if lines[to].strip()), at) if count else at
        if cited[after]:
            is_sure, follows, end = is_sure or after > at, True, max(after, at + 1)
            quoted[at:end] = [is_sure] * (end - at)
            at = end
            continue
        is_mail = (is_reply or answers) and _RULE["addressed"].search(" ".join(lines[at : at + count]))
        text = "\n".join(heads[at : at + _HEADER_LINES])
        is_headed = _RULE["headers"].match(text) or _RULE["original"].match(text)
        if is_mail or (is_headed and (answers or (subject and subject.casefold() in text.casefold()))):
            # If a mail says that its answers are inside the quoted text, they can't be distinguished from quotes.
            quoted[at:] = [_RULE["inside"].search("\n".join(lines[:at])) is None] * (len(lines) - at)
            break
        follows &= not lines[at].strip()
        at += 1
    spoken = [at for at, line in enumerate(lines) if any(map(str.isalnum, line))]
    said, own = frozenset(spoken), (at for at in range(len(lines)) if not quoted[at])
    written = takewhile(lambda at: not _RULE["signature"].fullmatch(heads[at]), own)
    if _RULE["forward"].match(subject) or said.isdisjoint(written):
        return [False] * len(lines)
    # Keep the lines that an answer between quoted lines refers to.
    runs = [list(run) for _, run in groupby(spoken, key=quoted.__getitem__)]
    for run in runs[:-1] if len(runs) > 3 or (quoted[spoken[0]] and len(runs) > 2) else ():
        lines_before = range(run[-1], run[-1] - (1 if in_html else _QUESTION_LINES), -1)
        for at in takewhile(lambda at: at in said and cited[at], lines_before):
            quoted[at] = False
    return quoted


def _count_intro(lines: Sequence[str]) -> int:
    """Count the first lines that introduce a quote, such as "On …, Ann wrote:"; 0 if the first line begins none."""
    for count in range(1, len(lines) + 1):
        text = " ".join(lines[:count])
        if len(text) > _INTRO_CHARACTERS or not lines[count - 1].strip():
            break
        is_apart = count == 1 or (lines[0].rstrip()[-1] not in ".!?" and _RULE["timed"].search(lines[0]))
        if _RULE["opened"].fullmatch(text) or (is_apart and _RULE["intro"].fullmatch(text)):
            return count
    return 0


_HEADERS = ("From", "To", "Cc", "Date")
# Types with encrypted contents; signatures only prove the other parts.
_ENCRYPTED = ENVELOPES | {"multipart/encrypted"}
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_HALVES = ("plain", "html")
MESSAGE = "message/rfc822"  # media type of a message within another
_WORDS = re.compile(r"\w+")
# A line "From …" begins a message only with a date, and before headers, because many programs don't mark it in bodies.
# Bounded counts keep this linear. UUCP adds lines ">From … remote from …".
_SEPARATOR = re.compile(
    rb"^From [^\n]{0,500}\d\d:\d\d[^\n]{0,60}\d{4}[^\n]*\n(?:>From [^\n]*\n)*(?=[!-9;-~]+:)", re.MULTILINE
)
_MARKED = re.compile(rb"^>(>*From )", re.MULTILINE)


def parse_mail(data: bytes, builder: BlockBuilder) -> str | None:
    """Add a message; return its subject as title."""
    return add_mail(read_mail(data), builder)


def add_mail(message: EmailMessage, builder: BlockBuilder) -> str | None:
    """Add a message, count the files in the message, and return the subject."""
    builder.file_count = len(list(attachments_of(message)))
    return _add_message(message, builder)


def read_mail(data: bytes) -> EmailMessage:
    """Return a message. Raises Unreadable without any mail header."""
    message = to_message(data)
    if not data.startswith(TNEF_MARK) and not _is_mail(message):
        raise corrupt_file("an e-mail message")
    return message


def attachments_of(message: EmailMessage) -> Iterator[EmailMessage]:
    return (part for part in _parts_beside_body(message) if _kind_of(part) is NotReadKind.ATTACHMENT)


def pictures_of(message: EmailMessage) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name and a reader of each picture in a message's text: parts, and pictures embedded in the HTML."""
    parts = (part for part in _parts_beside_body(message) if _kind_of(part) is NotReadKind.PICTURE)
    for number, part in enumerate(parts):
        yield str(number), partial(bytes_of, part)
    html = message.get_body(("html",))
    page = _content(html).encode(errors="replace") if isinstance(html, EmailMessage) else b""
    for number, read in enumerate(find_data_uris(page)):
        yield f"html/{number}", read
    for number, drawing in enumerate(find_drawings(page)):
        yield f"html/drawing/{number}", lambda drawing=drawing: drawing


def parse_web_archive(data: bytes, builder: BlockBuilder) -> str | None:
    """Add pages saved by a browser as a mail (MHTML); return the first page's title, or the subject."""
    message, titles = to_message(data), list[str]()
    pages = [part for part in _leaves(message) if part.get_content_maintype() == "text"]
    for page in [part for part in pages if part.get_content_subtype() == "html"] or pages[:1]:
        titles.append(parse_html(_content(page).encode(errors="replace"), builder) or "")
    for address, read in pictures_of(message):
        builder.picture(address, read())
    return next(filter(None, titles), "") or one_line(_header(message, "Subject"))


def parse_mailbox(data: bytes, builder: BlockBuilder) -> None:
    """Add the messages of a mailbox (mbox) in order."""
    first, *messages = _SEPARATOR.split(to_narrow(data).lstrip(b"\r\n"))
    if first or not messages:
        raise corrupt_file("a mailbox")
    # Only pictures of a single message have addresses.
    builder.limits = replace(builder.limits, finds_pictures=False)
    for number, content in enumerate(messages, start=1):
        builder.page = number
        unmarked = _MARKED.sub(rb"\1", content)
        message = to_message(unmarked)
        if not _is_mail(message):
            builder.heading(f"Message {number}", 1)
            add_paragraphs(unmarked.decode(errors="replace"), builder)
            continue
        try:
            _add_message(message, builder, number)
        except Unreadable as refusal:
            if refusal.code != "file_without_text":
                raise


def _is_mail(message: EmailMessage) -> bool:
    return any(name in message for name in ("From", "Date", "Subject"))


def _add_message(message: EmailMessage, builder: BlockBuilder, number: int = 0) -> str | None:
    subject = one_line(_header(message, "Subject"))
    builder.heading(subject or (f"Message {number}" if number else ""), 1)
    builder.lines("\n".join(f"{name}: {_header(message, name)}" for name in _HEADERS if name in message))
    before = len(builder.blocks)
    _add_body(message, builder)
    builder.quoted = False
    names = _leave_out_parts(message, builder, f"message {number}" if number else "")
    if len(builder.blocks) == before and not subject and not names:
        raise without_text("The message has no subject and no text. Send its attachments as separate files.")
    builder.paragraph("Attachments: " + ", ".join(names) if names else "")
    return subject or None


def _add_body(message: EmailMessage, builder: BlockBuilder) -> None:
    """Add the plain text body, then text found only in the HTML body; without plain text, all of the HTML."""
    halves = (_content(body) if isinstance(body := message.get_body((kind,)), EmailMessage) else "" for kind in _HALVES)
    plain, html = halves
    lines, is_reply = clean(plain).split("\n"), "In-Reply-To" in message or "References" in message
    find = partial(find_quoted, subject=one_line(_header(message, "Subject")), is_reply=is_reply)
    marks = iter(find(lines))
    for builder.quoted, part in groupby(lines, key=lambda _: next(marks)):
        add_paragraphs("\n".join(part), builder)
    if not html.strip():
        return
    page = BlockBuilder(builder.limits)
    add_html(html, page, is_quote)
    said = set(_WORDS.findall(plain.casefold()))
    quoted = find([block.text for block in page.blocks], [block.quoted for block in page.blocks])
    for block, builder.quoted in zip(page.blocks, quoted, strict=True):
        if not said.issuperset(_WORDS.findall(block.text.casefold())):
            builder.add(block)


def _leave_out_parts(message: EmailMessage, builder: BlockBuilder, label: str) -> list[str]:
    """Record the parts beside the body, and pictures for recognition; return the names of attached files."""
    names: list[str] = []
    for address, read in pictures_of(message):
        content = read()
        if builder.limits.finds_pictures or is_svg(content):
            builder.picture(address, content, label)
        else:
            builder.leave_out(NotReadKind.PICTURE, label)
    for part in _parts_beside_body(message):
        kind = _kind_of(part)
        # Only a mailbox's messages have a place; files in a single message become documents.
        if kind is not NotReadKind.PICTURE and (label or kind is not NotReadKind.ATTACHMENT):
            builder.leave_out(kind, label)
        if part.is_attachment() or "Content-ID" not in part:
            names.append(name_of(part))
    return [name for name in names if name]


def _parts_beside_body(message: EmailMessage) -> Iterator[EmailMessage]:
    bodies = [message.get_body((kind,)) for kind in _HALVES]
    for part in _leaves(message):
        if part.get_content_type() not in _SIGNATURES and not any(part is body for body in bodies):
            yield part


def _kind_of(part: EmailMessage) -> NotReadKind:
    if part.get_content_type() in _ENCRYPTED:
        return NotReadKind.ENCRYPTED
    is_shown = "Content-ID" in part or not part.is_attachment()
    return NotReadKind.PICTURE if part.get_content_maintype() == "image" and is_shown else NotReadKind.ATTACHMENT


def name_of(part: EmailMessage) -> str:
    """Return the name of a part's file; for an unnamed forwarded message, its subject."""
    name = part.get_filename()
    if name or part.get_content_type() != MESSAGE:
        return name or ""
    forwarded = next(iter(part.iter_parts()), None)
    subject = one_line(_header(forwarded, "Subject")) if isinstance(forwarded, EmailMessage) else ""
    return f"{(subject or 'message').replace('/', '_')}.eml"


def bytes_of(part: EmailMessage) -> bytes:
    """Return the bytes of a part's file; for a forwarded message, the whole message."""
    if part.get_content_type() == MESSAGE:
        forwarded = next(iter(part.iter_parts()), None)
        return b"" if forwarded is None else forwarded.as_bytes()
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _leaves(part: EmailMessage) -> Iterator[EmailMessage]:
    """Yield a message's parts without inner parts; a forwarded message or encrypted part counts as single."""
    if part.get_content_maintype() != "multipart" or part.get_content_type() in _ENCRYPTED:
        yield part
    else:
        for each in part.iter_parts():
            if isinstance(each, EmailMessage):
                yield from _leaves(each)


def _content(part: EmailMessage) -> str:
    """Return a part's text; if the declared encoding is unknown or wrong, guess as for a text file."""
    payload = part.get_payload(decode=True)
    return decode_body(payload, part.get_content_charset() or "") if isinstance(payload, bytes) else ""


def _header(message: EmailMessage, name: str) -> str:
    """Return a header's decoded text; the standard library raises many kinds of errors on broken headers."""
    try:
        return str(message[name] or "")
    except (ValueError, LookupError, AttributeError, TypeError):
        return ""
