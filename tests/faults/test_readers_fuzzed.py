"""Files of every format with random damage: each is read or refused correctly, and no reader dies."""

import asyncio
import random
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from service.text.reading import Extractor, UnreadableFile
from tests import made_files
from tests.faults.mutations import make_seeds, mutations

SECONDS, MEMORY_BYTES = 20, 600 << 20
# What ends a reader by itself: a loop in PDFium or libxml2 that takes all of its memory or time.
MOST_DEATHS = 0.005


# Names that an archive has twice are what is read.
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("seed", "count"), [pytest.param(3, 180, marks=pytest.mark.slow), pytest.param(5, 9_000, marks=pytest.mark.long)]
)
async def test_damage_costs_the_parts_that_it_hits(tmp_path, seed, count):
    files = list(mutations(make_seeds(), random.Random(seed), count))  # noqa: S311 - no secret
    turns = asyncio.Semaphore(2)

    async def read(number: int, kind: str, name: str, content: bytes) -> None:
        async with turns:
            path = made_files.saved(tmp_path, str(number), content)
            try:
                await extractor.extract(path, file_name=name)
            except UnreadableFile as error:
                refused.append((kind, name, error.code))
            path.unlink()

    refused: list[tuple[str, str, str]] = []
    with (
        closing(Extractor(workers=2, seconds=SECONDS, memory_bytes=MEMORY_BYTES)) as extractor,
        capture_logs() as logged,
    ):
        await asyncio.gather(*(read(number, *file) for number, file in enumerate(files)))
    causes = [entry["cause"] for entry in logged if entry["event"] == "extraction_failed"]
    # These say that a part of the file is damaged, and are no errors of a reader.
    told = ("BadZipFile", "zlib.error", "EOFError", "Unreadable")
    failed = [cause for cause in causes if not any(name in cause.splitlines()[-1] for name in told)]
    died = [entry for entry in logged if entry["event"] == "extraction_worker_died"]
    assert len(died) <= MOST_DEATHS * count, died
    assert not failed, (len(failed), "\n".join(failed[:5]))
    assert 0 < len(refused) < len(files)
