"""Lists as CSV that spreadsheets can open safely."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from carrel.spreadsheets import as_text

MOST_ROWS = 100_000


def in_batches(
    heads: Sequence[str], pages: Iterable[Iterable[Sequence[str]]], *, count: Callable[[int], object], most: int
) -> bytes:
    """Return the rows of all pages as CSV in UTF-8, at most `most`; `count` gets the number of rows after each page.

    It begins with a byte order mark, without which spreadsheets take UTF-8 for another encoding.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(heads)
    done = 0
    for page in pages:
        for row in islice(page, most - done):
            writer.writerow([as_text(cell) for cell in row])
            done += 1
        count(done)
        if done == most:
            break
    return b"\xef\xbb\xbf" + text.getvalue().encode()
