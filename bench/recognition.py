"""How much of a scan is read: `python -m bench.recognition`, on pages whose text is known, as a scanner gives them.

The pages are those of the sample's PDFs, one in two columns, and one with a table. It prints for each kind of scan the
share of the words that were read, and the seconds of processor time a page.
"""

import io
import random
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
from fpdf import FPDF
from PIL import Image

from service.text.extraction.blocks import unpack_blocks
from service.text.recognition import task
from service.text.recognition.engine import Recognizer

SAMPLE = Path(__file__).parents[1] / "sample" / "documents"
PAGES_OF_EACH = 2
SCANS = ((150, "clean"), (200, "clean"), (300, "clean"), (150, "grey"), (200, "grey"), (200, "askew"))
_WORD = re.compile(r"\w{2,}")


def pages() -> Iterator[tuple[str, Any]]:
    """Yield each page with the name of its kind."""
    for path in sorted(SAMPLE.rglob("*.pdf")):
        document: Any = pdfium.PdfDocument(path)
        yield from (("text", document[number]) for number in range(min(len(document), PAGES_OF_EACH)))
    words = [word for path in sorted(SAMPLE.rglob("*.md")) for word in re.findall(r"[a-zA-Z]{3,}", path.read_text())]
    chosen = random.Random(1)  # noqa: S311 - the same page each time
    for kind, content in (("columns", _columns(words, chosen)), ("table", _table(words, chosen))):
        yield kind, pdfium.PdfDocument(content)[0]


def _columns(words: list[str], chosen: random.Random) -> bytes:
    document = FPDF()
    document.add_page()
    document.set_font("Times", size=10)
    with document.text_columns(ncols=2, gutter=8, text_align="J") as columns:
        for _ in range(8):
            columns.write(" ".join(chosen.choices(words, k=90)) + ".\n\n")
    return bytes(document.output())


def _table(words: list[str], chosen: random.Random) -> bytes:
    document = FPDF()
    document.add_page()
    document.set_font("Helvetica", size=9)
    with document.table() as table:
        for _ in range(35):
            cells = (chosen.choice(words), f"{chosen.randint(1, 99_999):,}", f"2024-{chosen.randint(10, 12)}-17")
            table.row([*cells, chosen.choice(words)])
    return bytes(document.output())


def scan(page: Any, dots: int, how: str) -> Image.Image:
    """Return a page as a scanner gives it: clean, grey with noise and as a coarse JPEG, or laid in askew."""
    picture: Image.Image = page.render(scale=dots / 72).to_pil().convert("L")
    if how == "askew":
        return picture.rotate(1.5, fillcolor=255, resample=Image.Resampling.BICUBIC)
    if how == "clean":
        return picture
    noise = np.random.default_rng(1).normal(0, 12, (picture.height, picture.width))
    grey = Image.fromarray(np.clip(np.asarray(picture) * 0.6 + 60 + noise, 0, 255).astype(np.uint8))
    buffer = io.BytesIO()
    grey.save(buffer, "JPEG", quality=50)
    return Image.open(buffer)


def words_of(text: str) -> Counter[str]:
    """Return the words of a text, each as often as it is there."""
    return Counter(_WORD.findall(text.lower()))


def main() -> None:
    """Read every page as every kind of scan."""
    task._recognizers.append(Recognizer())  # noqa: SLF001 - as a process that reads pages has it
    known = [(kind, page, words_of(page.get_textpage().get_text_range())) for kind, page in pages()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.png"
        for dots, how in SCANS:
            found, wanted, seconds = Counter[str](), Counter[str](), 0.0
            for kind, page, words in known:
                scan(page, dots, how).convert("L").save(path)
                began = time.process_time()
                read = task.read_page(str(path), "image/png", 1, is_numbered=False, pixels=10**8, seconds=60)
                seconds += time.process_time() - began
                text = " ".join(block.text for block in unpack_blocks(read.packed))
                found[kind] += (words & words_of(text)).total()
                wanted[kind] += words.total()
            shares = ", ".join(f"{kind} {found[kind] / wanted[kind]:.3f}" for kind in wanted)
            print(f"{dots} dots, {how}: {shares}; {seconds / len(known):.1f} s a page", flush=True)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most")


if __name__ == "__main__":
    main()
