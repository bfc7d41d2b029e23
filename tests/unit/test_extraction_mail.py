"""Mails that are damaged, signed or packed, calendars, contacts and subtitles, names in archives, and titles."""

import gzip
import io
import json
from base64 import b64decode
from pathlib import Path

import pytest

from service.text.extraction.building import Limits, is_placeholder
from service.text.extraction.containers import read_files
from service.text.extraction.failures import Unreadable
from service.text.extraction.names import decode_header
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
    """A byte of a character that looks like a backslash divides no path."""
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
    with pytest.raises(Unreadable, match="protected by a password"):
        extract("a.zip", bytes(content))


@pytest.mark.parametrize(("text", "title"), cases("a_title_is_the_main_heading_then_the_files_own"))
def test_a_title_is_the_main_heading_then_the_files_own(extract, text, title):
    assert extract("a.md", text.encode()).title == title


@pytest.mark.parametrize(("titles", "expected"), cases("defaults_of_programs_are_no_titles"))
def test_defaults_of_programs_are_no_titles(titles, expected):
    assert [each for each in titles if is_placeholder(each) != expected] == []


def test_an_odd_byte_in_a_header_is_read_at_once():
    assert decode_header("a" * 99 + "\udc8cz{").startswith("a" * 99)
