"""Windows metafiles: lines of text, bitmaps, and damaged files."""

import gzip
import io
import random
import struct

import pytest
from PIL import Image

from bench.extraction import OFFICE
from service.text.extraction.metafiles import read_metafile, with_header
from tests import made_files

DRAWN = ("Tides at the northern quay", "Größe der Schiffe")
FILES = {kind: (OFFICE / f"drawn.{kind}").read_bytes() for kind in ("emf", "wmf")}


def emf(*records: tuple[int, bytes]) -> bytes:
    header = (1, struct.pack("<8i", *[0] * 8) + b" EMF" + bytes(64))
    packed = ((kind, content + bytes(-len(content) % 4)) for kind, content in (header, *records))
    return b"".join(struct.pack("<2I", kind, len(content) + 8) + content for kind, content in packed)


def text(words: str, x: int, y: int, width: int = 0, options: int = 0) -> tuple[int, bytes]:
    drawn = words.encode("utf-16-le")
    step = width // max(len(words), 1)
    place = 76 + len(drawn) + -len(drawn) % 4
    said = struct.pack("<2i3I4iI", x, y, len(words), 76, options, 0, 0, 0, 0, place if width else 0)
    return 84, bytes(28) + said + drawn.ljust(place - 76, b"\0") + struct.pack("<i", step) * (
        len(words) if width else 0
    )


def font(number: int, name: str, characters: int = 0) -> list[tuple[int, bytes]]:
    made = struct.pack("<Ii4i8B", number, -10, 0, 0, 0, 400, 0, 0, 0, characters, 0, 0, 0, 0)
    return [(82, made + name.encode("utf-16-le").ljust(64, b"\0")), (37, struct.pack("<I", number))]


X = ["Harbour", "x"]
TEXTS = [
    ([text("Har", 0, 0, 30), text("bour", 30, 0, 40)], ["Harbour"]),
    ([text("North", 0, 0, 50), text("quay", 60, 0, 40)], ["North quay"]),
    ([text("North", 0, 0, 50), text("South", 900, 0, 50)], ["North", "South"]),
    ([text("One", 0, 0, 30), text("Two", 0, 20, 30)], ["One", "Two"]),
    ([(22, b"\1"), text("Har", 9, 9), text("bour", 9, 9), (27, struct.pack("<2i", 0, 90)), text("x", 0, 0)], X),
    (
        [*font(1, "Symbol", 2), text("\uf061b1", 0, 0), *font(2, "Wingdings", 2), text("q", 0, 50)],
        ["\u03b1\u03b21", "\u2610"],
    ),
    ([text("ab", 0, 0, options=0x10), (108, struct.pack("<2i5I", 0, 0, 2, 0x300, 0, 0, 0) + b"ok")], ["ok"]),
    ([(83, bytes(28) + struct.pack("<2i3I4iI", 0, 0, 1, 76, 0, 0, 0, 0, 0, 0) + b"\xe4")], ["ä"]),
    ([*font(1, "A", 204), (83, bytes(28) + struct.pack("<2i3I5I", 0, 0, 1, 76, *[0] * 6) + b"\xe4")], ["д"]),
    ([text("Plain", 0, 0), (70, struct.pack("<I", 44) + b"EMF+" + bytes(40))], ["Plain"]),
    ([(70, struct.pack("<I4s2H7If", 48, b"EMF+", 0x401C, 0, 44, 32, 0, 0, 2, 0, 0, 0) + bytes(4) + b"O\0k\0")], ["Ok"]),
]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        # What LibreOffice drew as EMF and as WMF, packed, too.
        *((content, DRAWN) for content in (*FILES.values(), *map(gzip.compress, FILES.values()))),
        *((emf(*records), tuple(lines)) for records, lines in TEXTS),
    ],
)
def test_texts_are_joined_by_their_places(content, lines):
    assert read_metafile(content).lines == lines


def test_a_bitmap_in_a_drawing_becomes_a_picture() -> None:
    held = made_files.picture("red", 120, "BMP")[14:]
    place = struct.pack("<4I", 80, 40, 120, len(held) - 40)
    drawing = read_metafile(emf((81, bytes(40) + place + bytes(16) + held)))
    with Image.open(io.BytesIO(drawing.bitmap)) as picture:
        assert picture.size == (120, 120)
        assert picture.getpixel((60, 60)) == (255, 0, 0)
    assert with_header(held[:32] + b"\xff" * 4 + held[36:]) == b""


def test_damaged_drawings_say_what_they_have() -> None:
    dice = random.Random(7)  # noqa: S311 - chance that can be repeated
    for content in (*FILES.values(), emf(text("Har", 0, 0, 30), *font(1, "Symbol", 2))):
        for size in range(0, len(content), 3):
            drawing = read_metafile(content[:size])
            assert drawing is None or len(drawing.lines) <= len(DRAWN)
        for _ in range(300):
            changed = bytearray(content)
            for _ in range(8):
                changed[dice.randrange(40, len(changed))] = dice.choice((0, 1, 0x7F, 0xFF))
            read_metafile(bytes(changed))
    assert read_metafile(b"no drawing") is None


def test_many_texts_of_the_same_bytes_do_not_multiply_them() -> None:
    """A record of 50 kB claiming to draw the last 40 kB 250 times gives 1,000 characters each time."""
    count, held = 250, b"A\0" * 20_000
    texts = b"".join(
        struct.pack("<2i3I4iI", 0, 20 * each, len(held), 40 + 40 * count, 0, 0, 0, 0, 0, 0) for each in range(count)
    )
    assert set(map(len, read_metafile(emf((97, bytes(28) + struct.pack("<I", count) + texts + held))).lines)) == {1_000}
