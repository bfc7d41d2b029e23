"""Variants of Office files, and formats that are converted, are read."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from bench.extraction import OFFICE
from tests import made_files

OPEN = b"application/vnd.openxmlformats-officedocument."
MAIN = {
    "word": OPEN + b"wordprocessingml.document.main+xml",
    "slides": OPEN + b"presentationml.presentation.main+xml",
    "sheet": OPEN + b"spreadsheetml.sheet.main+xml",
}
STRICT = (rb"http://schemas\.openxmlformats\.org/(officeDocument|\w+ml)/2006/", rb"http://purl.oclc.org/ooxml/\1/")
FILES = {
    "word": made_files.word(paragraphs=[("Heading 1", "Care"), ("Normal", "Water often")]),
    "slides": made_files.slides(),
    "sheet": made_files.workbook(Stock=[["Tree", "Tons"], ["Pear", 3]]),
}
RTF = rb"{\rtf1\ansi\deff0{\info{\title Pruning}}Die B\'e4ume \b now\b0\par Second one\par}"


def rewritten(package: bytes, old: bytes, new: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        parts = {name: re.subn(old, new, archive.read(name)) for name in archive.namelist()}
    assert any(count for _, count in parts.values())
    return made_files.archive({name: content for name, (content, _) in parts.items()})


TEXT = made_files.opendocument(
    "text", '<office:text><text:h text:outline-level="1">Care</text:h><text:p>Water often</text:p></office:text>'
)
NOTEBOOK = (
    b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": ['
    b'{"cell_type": "markdown", "metadata": {}, "source": ["# Yields\\n", "by field"]}, '
    b'{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["total = 3"], "outputs": []}]}'
)


@pytest.mark.parametrize(
    # The strict form of the standard, without a type here, has other names for everything.
    ("kind", "suffix", "content_type"),
    json.loads(Path(__file__).with_name("data").joinpath("cells.json").read_text("utf-8"))["variants"],
)
def test_variants_of_office_files_say_the_same(extract, kind, suffix, content_type):
    old, new = (re.escape(MAIN[kind]), content_type.encode()) if content_type else STRICT
    assert extract(f"a.{suffix}", rewritten(FILES[kind], old, new)).blocks == extract("a", FILES[kind]).blocks


@pytest.mark.parametrize(
    ("name", "content", "title", "expected"),
    [
        ("a.rtf", RTF, "Pruning", ["Die Bäume now", "Second one"]),
        ("a.odt", TEXT, "Care", ["Care", "Water often"]),
        ("a.epub", made_files.e_book("<h1>Pears</h1><p>They ripen.</p>"), "Orchards", ["Pears", "They ripen."]),
        ("a.ipynb", NOTEBOOK, "Yields", ["Yields", "by field", "total = 3"]),
        ("a.org", b"#+TITLE: Trees\n* Pears\nThey /ripen/ late.\n", "Trees", ["Pears", "They ripen late."]),
        ("a.ods", made_files.open_sheets(A=[["Tree", "Month"], ["Pear", "May"]]), None, ["Tree: Pear | Month: May"]),
        ("a.rst", b"Pears\n=====\n\nThey *ripen* late.\n", "Pears", ["Pears", "They ripen late."]),
    ],
)
def test_converted_formats_have_their_headings_and_paragraphs(extract, name, content, title, expected):
    extraction = extract(name, content)
    assert extraction.title == title
    assert [block.text for block in extraction.blocks][-len(expected) :] == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.doc", RTF, "Die Bäume now"),
        ("a.doc", FILES["word"], "Water often"),
        ("a.xls", b"<html><table><tr><td>Pear</td></tr></table></html>", "Pear"),
        ("a.doc", b"<?xml version='1.0'?><w>Water often</w>", "Water often"),
        ("a.odt", made_files.with_part(TEXT, "Basic/a.xml", b'<!DOCTYPE l PUBLIC "-//a" "l.dtd"><l/>'), "Water often"),
    ],
)
def test_what_programs_open_is_read(texts, name, content, said):
    """Word and Excel open RTF, web pages and XML under their old suffixes; macros name a document type."""
    assert said in texts(name, content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (rb"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0 A;}{\f1\fcharset128 B;}}\f0 \'e8l\'e1nek \f1 \'8c\'c3", "článek 古"),
        (rb"{\rtf1\ansi\uc2 a\u24565\'bf\'bfb \u-10240??\u-8386??c}", "a念b 𐌾c"),
        (rb"{\rtf1 kept{\deleted gone}{\*\unknown gone}{\field{\*\fldinst X}{\fldrslt shown}}}", "keptshown"),
        (rb"{\rtf1{\upr{old}{\*\ud new}}\bin3 }}}\'41}", "newA"),
        (rb"{\rtf1{\listtext\pard 4.2\tab}\pard\ls1 Tides}", "4.2 Tides"),
        (rb"{\rtf1{\listtext\pard\'b7\tab}\pard\ls1 Tides}", "- Tides"),
        (rb"{\rtf1{\pntext 1.\tab}\par{\pntext 2.\tab}Tides\par}", "2. Tides"),
    ],
)
def test_rtf_says_what_its_control_words_mean(texts, content, said):
    assert texts("a.rtf", content) == [said]


def test_presentations_of_powerpoint_95_are_read(extract):
    """The text that it keeps for searches is read; a file for it and for PowerPoint 97 is read as one of the latter."""
    of_95 = {"Text_Content": "Größe\r\rTides\x0bturn".encode("cp1252"), "PowerPoint Document": b"95"}
    extraction = extract("a.ppt", made_files.compound(of_95))
    assert ([block.text for block in extraction.blocks], extraction.not_read) == (["Größe", "Tides turn"], None)
    of_97 = (OFFICE / "fleet.ppt").read_bytes()
    both = of_95 | {f"PP97_DUALSTORAGE/{name}": content for name, content in made_files.streams(of_97).items()}
    extraction, expected = (extract("a.ppt", content) for content in (made_files.compound(both), of_97))
    assert extraction.blocks == expected.blocks
    assert extraction.not_read is not None
