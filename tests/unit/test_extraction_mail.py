"""Mails: damaged, signed or packed, as Outlook stores them, with calendars, contacts and attachments."""

import gzip
import io
import json
import struct
from base64 import b64decode
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

import compressed_rtf
import pytest
from aspose.email_foss import msg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carrel.wire.formats import NotReadKind
from service.text.extraction.blocks import ContainedFile, Extraction, NotRead
from service.text.extraction.building import Limits, is_placeholder
from service.text.extraction.containers import read_files
from service.text.extraction.failures import Unreadable
from service.text.extraction.names import decode_header
from service.text.extraction.parsing import parse_file
from tests import made_files
from tests.harness.cases import cases

DATA = Path(__file__).parents[1] / "data"
MAILS = json.loads((DATA / "mails.json").read_text())
NAMES = json.loads((DATA / "archive-names.json").read_text())


@pytest.mark.parametrize("mail", MAILS, ids=[mail["about"] for mail in MAILS])
def test_what_is_readable_of_a_message_is_read(extract, mail):
    content = mail["text"].encode() if "text" in mail else b64decode(mail["base64"])
    found = extract(mail["name"], content)
    assert (found.title or "", [block.text for block in found.blocks]) == (mail["title"], mail["blocks"])
    assert [part.kind for part in found.not_read or ()] == mail["notRead"]
    assert [block.text for block in found.blocks if block.quoted] == mail.get("quoted", [])


@pytest.mark.parametrize("encoding", NAMES)
def test_all_names_of_an_archive_tell_their_encoding_together(tmp_path, encoding):
    """Together, because a byte of a character can look like a backslash, which would divide a path."""
    names = [name.encode(encoding) for name in NAMES[encoding]]
    plain = ["~_^!=%&"[number] * len(name) for number, name in enumerate(names)]
    content = made_files.archive(dict.fromkeys(plain, "Quay."))
    for before, after in zip(plain, names, strict=True):
        content = content.replace(before.encode(), after)
    files = read_files(made_files.saved(tmp_path, "a.zip", content), "a.zip", Limits(), start=0, most=None, largest=100)
    assert [(file.path, file.content) for file in files] == [(name, b"Quay.") for name in NAMES[encoding]]


@pytest.mark.parametrize(("name", "said", "inner"), cases("names_of_gzip_files"))
def test_a_gzip_file_holds_a_file(tmp_path, extract, name, said, inner):
    with gzip.GzipFile(said, "wb", fileobj=(packed := io.BytesIO())) as file:
        file.write(b"Quay;9")
    found = extract(name, packed.getvalue())
    assert (found.media_type, found.file_count, found.blocks[0].text) == ("application/gzip", 1, inner)
    path = made_files.saved(tmp_path, "file", packed.getvalue())
    [held] = read_files(path, name, Limits(), start=0, most=None, largest=6)
    assert (held.path, held.content) == (inner, b"Quay;9")
    assert read_files(path, name, Limits(), start=0, most=None, largest=5)[0].code == "file_too_large"
    assert not read_files(path, name, Limits(), start=1, most=None, largest=6)


def test_an_encrypted_archive_is_refused(extract):
    content = bytearray(made_files.archive({"a.txt": "Quay."}))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(Unreadable, match="has a password"):
        extract("a.zip", bytes(content))


@pytest.mark.parametrize(("text", "title"), cases("a_title_is_the_main_heading_then_the_files_own"))
def test_a_title_is_the_main_heading_then_the_files_own(extract, text, title):
    assert extract("a.md", text.encode()).title == title


@pytest.mark.parametrize(("titles", "expected"), cases("defaults_of_programs_are_no_titles"))
def test_defaults_of_programs_are_no_titles(titles, expected):
    assert [each for each in titles if is_placeholder(each) != expected] == []


def test_an_odd_byte_in_a_header_is_read_at_once():
    assert decode_header("a" * 99 + "\udc8cz{").startswith("a" * 99)


BYTES = bytes(range(256)) * 20


def mail(subject: str = "Pears für Łódź", forwarded: EmailMessage | None = None) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["Date"] = subject, "Mon, 05 Jan 2026 10:00:00 +0000"
    message["From"], message["To"] = "Ann Šik <ann@example.test>", "Ben Oak <ben@example.test>, Cy <cy@example.test>"
    message["Cc"] = "Dee <dee@example.test>"
    message.set_content("They ripen late.\n\nPick in May.")
    message.add_alternative('<p>They ripen late.</p><p>Only here.</p><img src="cid:a1">', subtype="html")
    message.add_attachment(b"Tree,Tons\nPear,3\n", maintype="text", subtype="csv", filename="yield.csv")
    message.add_attachment(BYTES, maintype="image", subtype="png", filename="a.png", cid="a1", disposition="inline")
    message.add_attachment(BYTES, maintype="application", subtype="octet-stream", filename="a.bin")
    if forwarded is not None:
        message.add_attachment(forwarded)
    return message


def read(folder: Path, name: str, content: bytes) -> tuple[Extraction, list[ContainedFile]]:
    path = made_files.saved(folder, name, content)
    return parse_file(path, name, Limits()), read_files(path, name, Limits(), start=0, most=None, largest=1 << 20)


def test_a_message_reads_as_the_same_mail(tmp_path):
    message = mail(forwarded=mail("Inside", mail("Deeper")))
    said, carried = read(tmp_path, "a.msg", made_files.outlook(bytes(message)))
    expected, files = read(tmp_path, "a.eml", bytes(message))
    assert said.blocks == expected.blocks
    assert (said.title, said.file_count) == (expected.title, 3)
    assert said.not_read == expected.not_read == (NotRead(NotReadKind.PICTURE, 1),)
    assert carried[:-1] == files[:-1]
    inside = [read(tmp_path, "b.eml", each[-1].content or b"") for each in (carried, files)]
    assert inside[0][0].blocks == inside[1][0].blocks
    assert inside[0][1][:-1] == inside[1][1][:-1]
    assert [each.path for each in inside[0][1]] == ["yield.csv", "a.bin", "Deeper.eml"]


def test_a_text_in_outlooks_own_form_alone_is_read(tmp_path):
    packed = compressed_rtf.compress(rb"{\rtf1\ansi The pears ripen late.\par}")
    for content, texts in ((packed, ["Care", "The pears ripen late."]), (packed[:-9], ["Care"])):
        made = msg.MapiMessage.create("Care")
        made.set_property(0x1009, 0x0102, content)
        made.save(str(tmp_path / "a.msg"))
        assert [block.text for block in parse_file(tmp_path / "a.msg", "a.msg", Limits()).blocks] == texts


def test_messages_within_each_other_end(tmp_path):
    message = mail()
    for _ in range(18):
        message = mail(forwarded=message)
    said, carried = read(tmp_path, "a.msg", made_files.outlook(bytes(message)))
    assert said.file_count == 3
    assert [each.content is None for each in carried] == [False, False, True]


@pytest.fixture(scope="module")
def whole():
    return made_files.outlook(bytes(mail(forwarded=mail())))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_messages_are_read_or_refused(tmp_path, whole, data):
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 12))):
        place = data.draw(st.integers(8, len(content) - 4) | st.integers(len(content) - 6_000, len(content) - 4))
        struct.pack_into("<I", content, place, data.draw(st.integers(0, 2**32 - 1) | st.sampled_from([0, 0xFFFFFFFE])))
    with suppress(Unreadable):
        read(tmp_path, "a.msg", bytes(content[: data.draw(st.integers(4_096, len(content)))]))
