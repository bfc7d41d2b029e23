"""Damaged and hostile files: mutations of good files of every format."""

import gzip
import io
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.extraction import FILES, MAKERS, OFFICE, make_file, prose
from tests import made_files

Dice = random.Random
_DATA = Path(__file__).parents[1] / "unit/data"
Seeds = dict[str, bytes]
"""Good files by name; the suffix is the format."""

_NUMBER = re.compile(rb"\d+")
_HUGE = (b"99999999999", b"4294967295", b"-1", b"1e308", b"0")
_WORDS = (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0, 0xFFFFFFFE, 0x10000)
_LAUGHS = "<!DOCTYPE a [<!ENTITY a 'lol'>" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
)
_BOMB = bytes(64 << 20)
_NESTED: dict[str, tuple[bytes, bytes, bytes]] = {
    "json": (b"[", b"1", b"]"),
    "xml": (b"<a>", b"x", b"</a>"),
    "html": (b"<div>", b"x", b"</div>"),
    "rtf": (b"{\\rtf1 ", b"x", b"}"),
    "md": (b"> ", b"x", b""),
    "tex": (b"\\textbf{", b"x", b"}"),
    "ipynb": (b'{"cells":[', b"1", b"]}"),
    "org": (b"*", b" x", b""),
    "rst": (b"  ", b"x\n", b""),
}
_DEEP = 60_000


def make_seeds() -> Seeds:
    """Return a small good file of each format, and files made by LibreOffice."""
    paragraphs = prose()[:4]
    seeds = {f"made.{suffix}": maker(paragraphs)[0] for suffix, maker in MAKERS.items()}
    seeds |= {f"{name.replace(' ', '-')}.{suffix}": make_file(name)[1] for name, (suffix, _) in FILES.items()}
    seeds |= {path.name: path.read_bytes() for path in OFFICE.glob("pictures.*") if not path.suffix.startswith(".fod")}
    seeds |= {f"scan.{kind.lower()}": made_files.scanned(made_files.scan("Pears"), kind=kind) for kind in _PICTURES}
    return seeds | {
        "mail.msg": made_files.outlook(made_files.mail()),
        "old.xls": made_files.old_workbook(Stock=[["Tree", "Tons"], ["Pear", 3]]),
        "files.zip": made_files.archive({"a.txt": "Pears", "b/c.docx": seeds["made.docx"]}),
        "rows.csv": b"Tree,Tons\nPear,3\n",
        "rows.csv.gz": gzip.compress(b"Tree,Tons\nPear,3\n", mtime=0),
        **{name: (_DATA / name).read_bytes() for name in ("numbers.xlsb", "pears.heic")},
        "rows.tsv": b"Tree\tTons\nPear\t3\n",
        "data.json": b'{"trees": [{"name": "Pear", "tons": 3}]}',
        "data.jsonl": b'{"name": "Pear"}\n{"name": "Plum"}\n',
    }


_PICTURES = ("PNG", "JPEG", "TIFF", "WebP", "GIF", "BMP")


def mutations(seeds: Seeds, dice: Dice, count: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield `count` hostile files: the mutation, a name, and the content."""
    names = sorted(seeds)
    for number in range(count):
        name = names[number % len(names)]
        kind = dice.choice([kind for kind in KINDS if kind not in _ARCHIVED or seeds[name][:2] == b"PK"])
        yield kind, name, KINDS[kind](seeds[name], dice, seeds) if kind != "nested" else _nest(name, dice)
        if number % 7 == 0:
            yield "wrong suffix", f"wrong.{dice.choice(names).rpartition('.')[2]}", seeds[name]


def _nest(name: str, dice: Dice) -> bytes:
    before, inside, after = _NESTED.get(name.rpartition(".")[2], (b"(", b"x", b")"))
    depth = dice.choice((300, 5_000, _DEEP))
    return before * depth + inside + after * depth


def _cut(content: bytes, dice: Dice, _: Seeds) -> bytes:
    return content[: dice.randrange(len(content))]


def _flip(content: bytes, dice: Dice, _: Seeds) -> bytes:
    changed = bytearray(content)
    for _turn in range(dice.choice((1, 10, 200))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _claim(content: bytes, dice: Dice, _: Seeds) -> bytes:
    """Put huge and negative numbers at places of counts, offsets and sector links."""
    changed = bytearray(content)
    for _turn in range(dice.choice((1, 4, 30))):
        place = dice.randrange(max(len(changed) - 4, 1)) & ~dice.choice((0, 1, 3))
        changed[place : place + 4] = struct.pack("<I", dice.choice((*_WORDS, dice.randrange(64))))
    return bytes(changed)


def _link(content: bytes, dice: Dice, _: Seeds) -> bytes:
    """Link sectors in circles: a stretch of small numbers pointing to earlier sectors."""
    place = dice.randrange(len(content)) & ~511
    circle = struct.pack("<128I", *(dice.randrange(40) for _turn in range(128)))
    return content[:place] + circle + content[place + 512 :]


def _number(content: bytes, dice: Dice, _: Seeds) -> bytes:
    return _NUMBER.sub(lambda found: dice.choice(_HUGE) if dice.random() < 0.1 else found[0], content)


def _splice(content: bytes, dice: Dice, seeds: Seeds) -> bytes:
    other = seeds[dice.choice(sorted(seeds))]
    return content[: dice.randrange(len(content))] + other[dice.randrange(len(other)) :]


def _repeat(content: bytes, dice: Dice, _: Seeds) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + content[start : start + 2_000] * dice.choice((3, 500)) + content[start:]


def _encode(content: bytes, dice: Dice, _: Seeds) -> bytes:
    text = content.decode("latin-1")
    return text.encode(dice.choice(("utf-16", "utf-32", "utf-16-be", "cp037", "utf-7")), "replace")


def _random(content: bytes, dice: Dice, _: Seeds) -> bytes:
    return content[:16] + dice.randbytes(dice.choice((10, 4_000, 100_000)))


def _part(change: Callable[[bytes, Dice, Seeds], bytes]) -> Callable[[bytes, Dice, Seeds], bytes]:

    def mutate(content: bytes, dice: Dice, seeds: Seeds) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [each.filename for each in archive.infolist() if each.file_size]
            name = dice.choice([each for each in names if each.endswith((".xml", ".bin", ".xhtml"))] or names)
            return made_files.with_part(content, name, change(archive.read(name), dice, seeds))

    return mutate


def _laugh(part: bytes, _: Dice, __: Seeds) -> bytes:
    body = re.sub(rb"^<\?xml[^>]*>", b"", part)
    return _LAUGHS.encode() + b"]>" + body.replace(b">", b">&j;", 3)


def _bomb(content: bytes, dice: Dice, _: Seeds) -> bytes:
    declared = dice.choice((None, 2_000))
    return made_files.with_part(
        content, dice.choice(("word/x.xml", "content.xml", "xl/x.bin", "a.txt")), _BOMB, declared_size=declared
    )


def _rename(content: bytes, dice: Dice, _: Seeds) -> bytes:
    """Give parts duplicate, absolute, very long, or path traversal names."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(written, "w") as new:
        for entry in old.infolist():
            names = (entry.filename, f"../../{entry.filename}", f"/etc/{entry.filename}", "n" * 60_000, "a\x00b")
            for name in (entry.filename, dice.choice(names)):
                new.writestr(zipfile.ZipInfo(name), old.read(entry.filename))
    return written.getvalue()


KINDS: dict[str, Callable[[bytes, Dice, Seeds], bytes]] = {
    "cut": _cut,
    "flipped": _flip,
    "claims": _claim,
    "circles": _link,
    "numbers": _number,
    "spliced": _splice,
    "repeated": _repeat,
    "encoded": _encode,
    "random": _random,
    "nested": _random,
    "part cut": _part(_cut),
    "part flipped": _part(_flip),
    "part claims": _part(_claim),
    "part numbers": _part(_number),
    "part repeated": _part(_repeat),
    "part spliced": _part(_splice),
    "entities": _part(_laugh),
    "bomb": _bomb,
    "names": _rename,
}
_ARCHIVED = frozenset(kind for kind in KINDS if kind.startswith("part")) | {"entities", "bomb", "names"}
