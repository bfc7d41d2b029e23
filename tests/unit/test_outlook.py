"""Messages of Outlook say and carry what the same message says and carries as a mail."""

import struct
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
from service.text.extraction.building import Limits
from service.text.extraction.containers import read_files
from service.text.extraction.failures import Unreadable
from service.text.extraction.parsing import parse_file
from tests import made_files

BYTES = bytes(range(256)) * 20


def mail(subject: str = "Pears für Łódź", forwarded: EmailMessage | None = None) -> EmailMessage:
    """Return a mail of two halves that shows a picture, and carries a table, a program's file and another mail."""
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
