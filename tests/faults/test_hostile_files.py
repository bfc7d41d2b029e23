"""A hostile file costs one refusal: not time, memory, secrets or the next file of the service or another person."""

import asyncio
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from multiprocessing import forkserver
from uuid import uuid4

import httpx
import psutil
import pypdf
import pytest
from pebble import ProcessExpired

from service.platform.errors import Unavailable
from service.text import pools
from service.text.extraction import workers
from service.text.reading import Extractor, UnreadableFile
from tests import made_files
from tests.faults.mutations import make_seeds, mutations
from tests.harness.http_servers import Handler, serving
from tests.harness.jobs import readers_of
from tests.harness.loops import going_on

MEMORY = 400 << 20
WORDS = made_files.word(paragraphs=[("Normal", "some words")])
SHEET = made_files.workbook(A=[["x", "y"], [1, 2]])
SLOW = b"a,b\n" + b"1,2\n" * 900_000
WORD_BODY = (
    '<?xml version="1.0"?>{doctype}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    "<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>"
)
LAUGHS = (
    "<!DOCTYPE lolz [<!ENTITY a 'lollollollollollollol'>"
    + "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(10))
    + "]>"
)


name_of = pypdf.generic.NameObject


def drawing(form):
    """Return the resources of an XObject for drawing the form as X, if any."""
    known = {} if form is None else {name_of("/X"): form}
    return pypdf.generic.DictionaryObject({name_of("/XObject"): pypdf.generic.DictionaryObject(known)})


@pytest.fixture(scope="module")
def extractor():
    made = Extractor(workers=2, seconds=8, memory_bytes=MEMORY)
    yield made
    made.close()


async def reads_pears(extractor, folder):
    found = await extractor.extract(made_files.saved(folder, "harmless", b"pears"), file_name="a.txt")
    assert found.blocks[0].text == "pears"


@pytest.fixture
def refuse(extractor, tmp_path):
    async def run(name: str, content: bytes) -> str:
        with pytest.raises(UnreadableFile) as caught:
            await extractor.extract(made_files.saved(tmp_path, "hostile", content), file_name=name)
        await reads_pears(extractor, tmp_path)
        return caught.value.code

    return run


@pytest.fixture
def canary():
    asked = []

    class Canary(Handler):
        def answer(self, _):
            asked.append(self.path)
            self.respond(404)

    with serving(Canary) as address:
        yield address, asked


@pytest.mark.slow
async def test_zip_bomb_in_a_word_document(refuse):
    bomb = made_files.with_part(WORDS, "word/media/image1.bmp", bytes(300 << 20))
    assert len(bomb) < 1 << 20
    assert await refuse("a.docx", bomb) == "file_too_complex"


async def test_zip_bomb_that_lies_about_its_size(refuse):
    bomb = made_files.with_part(WORDS, "word/document.xml", b"<a>" + bytes(100 << 20), declared_size=2_000)
    assert await refuse("a.docx", bomb) in {"file_corrupt", "file_too_complex"}


async def test_billion_laughs(refuse):
    bomb = WORD_BODY.format(doctype=LAUGHS, text="&k;").encode()
    assert await refuse("a.docx", made_files.with_part(WORDS, "word/document.xml", bomb)) == "file_too_complex"
    padded = b"<!-- " + b"x" * 100_000 + b" -->"
    late = bomb.replace(b"<!DOCTYPE", padded + b"<!DOCTYPE")
    assert await refuse("a.docx", made_files.with_part(WORDS, "word/document.xml", late)) != ""
    strings = (
        LAUGHS + '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>&k;</t></si></sst>'
    )
    assert await refuse("a.xlsx", made_files.with_part(SHEET, "xl/sharedStrings.xml", strings.encode())) != ""
    sheet = (
        padded.decode()
        + LAUGHS
        + '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        + ('<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>&k;</t></is></c></row></sheetData></worksheet>')
    )
    assert await refuse("a.xlsx", made_files.with_part(SHEET, "xl/worksheets/sheet1.xml", sheet.encode())) != ""


@pytest.mark.parametrize(("place", "claim"), [(76, 0xFFFFFFFF), (514, 0x80000000)])
async def test_a_reader_in_rust_that_panics_refuses_the_file(extractor, refuse, place, claim):
    await extractor.warm()
    before = readers_of(extractor)
    content = bytearray(made_files.old_workbook(Stock=[["Tree", "Tons"], ["Pear", 3]]))
    content[place : place + 4] = claim.to_bytes(4, "little")
    assert await refuse("a.xls", bytes(content)) == "file_corrupt"
    assert readers_of(extractor) == before != set()


async def test_outside_entities_reveal_no_file(extractor, tmp_path):
    secret = made_files.saved(tmp_path, "secret", b"the-secret-words")
    doctype = f"<!DOCTYPE a [<!ENTITY x SYSTEM 'file://{secret}'>]>"
    padding = f"<!-- {'x' * 100_000} -->"
    for name, content in {
        "a.docx": made_files.with_part(
            WORDS, "word/document.xml", WORD_BODY.format(doctype=padding + doctype, text="words &x;").encode()
        ),
        "a.html": f"<?xml version='1.0'?>{doctype}<html><p>words &x;</p></html>".encode(),
    }.items():
        try:
            found = await extractor.extract(made_files.saved(tmp_path, "file", content), file_name=name)
        except UnreadableFile:
            continue
        assert "the-secret-words" not in str(found)


async def test_nothing_is_ever_fetched(extractor, tmp_path, canary):
    address, asked = canary
    page = f"""<!DOCTYPE html SYSTEM "{address}/dtd"><html><link rel=stylesheet href={address}/css>
    <img src={address}/img><iframe src={address}/frame></iframe><p>words that are long enough to be kept</p>"""
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relation}/image" Target="{address}/picture" TargetMode="External"/>'
        f'<Relationship Id="r2" Type="{relation}/attachedTemplate" Target="{address}/dot" TargetMode="External"/>'
        f'<Relationship Id="r3" Type="{relation}/externalLinkPath" Target="{address}/book" TargetMode="External"/>'
        "</Relationships>"
    ).encode()
    for name, content in {
        "a.html": page.encode(),
        "a.md": f"![x]({address}/picture) words\n\n<img src='{address}/img'>".encode(),
        "a.docx": made_files.with_part(WORDS, "word/_rels/document.xml.rels", relations),
        "a.xlsx": made_files.with_part(SHEET, "xl/worksheets/_rels/sheet1.xml.rels", relations),
    }.items():
        assert (await extractor.extract(made_files.saved(tmp_path, "file", content), file_name=name)).blocks
    assert asked == []


async def test_deep_nesting(refuse):
    depth = 100_000
    assert await refuse("a.json", b"[" * depth + b"]" * depth) == "file_too_complex"
    assert await refuse("a.html", b"<div>" * depth + b"words") == "file_too_complex"
    message = b"".join(
        b"Subject: x\nContent-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (n, n) for n in range(5_000)
    )
    assert await refuse("a.eml", message) in {"file_too_complex", "file_corrupt", "file_without_text"}


async def test_deep_nesting_that_is_harmless(extractor, tmp_path):
    content = b">" * 5_000 + b" words\n\n" + b"[" * 20_000 + b"\n\n" + b"*a **b " * 5_000
    assert (await extractor.extract(made_files.saved(tmp_path, "file", content), file_name="a.md")).blocks


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html", "a.tsv"])
async def test_one_huge_line(extractor, tmp_path, name):
    found = await extractor.extract(made_files.saved(tmp_path, "file", b"pears and apples " * 600_000), file_name=name)
    assert sum(len(block.text) for block in found.blocks) > 10_000_000
    assert max(len(block.text) for block in found.blocks) <= 8_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", b"{%" * 500_000),
        ("a.md", b"](" + b" " * 1_000_000 + b"x"),
        ("a.md", b"<!--" * 200_000),
        ("a.md", b"`" * 300_000 + b"a"),
        ("a.md", b"---\n" + b"title " * 200_000),
        ("a.txt", b"\n \t" * 500_000 + b"x"),
        ("a.csv", (b'"' * 99 + b",;\t|") * 10_000),
        ("a.eml", b"Subject: " + b"=?utf-8?q?" * 20_000 + b"\n\nx"),
        ("a.eml", b"From: " + b"(" * 20_000 + b"\n\nx"),
        ("a.html", b"<a" * 500_000),
        ("a.html", b"<table><tr><td>" * 2_000 + b"x"),
    ],
)
async def test_what_makes_regular_expressions_slow(extractor, tmp_path, name, content):
    started = time.monotonic()
    try:
        await extractor.extract(made_files.saved(tmp_path, "file", content), file_name=name)
    except UnreadableFile as refusal:
        assert refusal.code in {"file_too_complex", "file_corrupt", "file_without_text"}  # noqa: PT017 - or it is read
    assert time.monotonic() - started < 12


async def test_a_file_that_takes_too_long_ends_its_worker(tmp_path):
    slow = made_files.saved(tmp_path, "slow", SLOW)
    with closing(Extractor(workers=1, seconds=0.5, memory_bytes=1 << 30)) as extractor:
        with pytest.raises(UnreadableFile, match=r"longer than 0\.5 seconds"):
            await extractor.extract(slow, file_name="a.csv")
        await reads_pears(extractor, tmp_path)


async def test_a_file_that_gets_no_processor_is_to_be_sent_again(tmp_path, monkeypatch):
    """The limit counts the worker's own processor time; a worker that only waits is ended much later."""
    monkeypatch.setattr(workers, "WAIT_FACTOR", 3)
    os.mkfifo(tmp_path / "waits")
    with closing(Extractor(workers=1, seconds=0.5, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="too busy"):
            await asyncio.wait_for(extractor.extract(tmp_path / "waits", file_name="a.txt"), 20)
        assert time.monotonic() - began > 1


async def test_a_page_that_takes_too_long_to_render_ends_its_worker(tmp_path):
    """A page on which each form draws the next form twice."""
    writer = pypdf.PdfWriter()
    page, inner = writer.add_blank_page(600, 600), None
    for _ in range(20):
        form = pypdf.generic.StreamObject()
        form.set_data(b"0 0 9 9 re f" if inner is None else b"/X Do " * 8)
        box = pypdf.generic.ArrayObject(map(pypdf.generic.NumberObject, (0, 0, 600, 600)))
        names = {"/Type": "/XObject", "/Subtype": "/Form"}
        form.update({name_of(key): name_of(value) for key, value in names.items()} | {name_of("/BBox"): box})
        form[name_of("/Resources")] = drawing(inner)
        inner = writer._add_object(form)
    page[name_of("/Resources")] = drawing(inner)
    content = pypdf.generic.StreamObject()
    content.set_data(b"/X Do")
    page[name_of("/Contents")] = writer._add_object(content)
    writer.write(tmp_path / "bomb.pdf")
    media_type = "application/pdf"
    with closing(Extractor(workers=1, seconds=0.5, memory_bytes=2 << 30)) as extractor:
        await extractor.warm()
        with pytest.raises(UnreadableFile, match=r"longer than 0\.5 seconds"):
            await extractor.render_page(
                nullcontext(tmp_path / "bomb.pdf"), media_type=media_type, page=1, wanted_by=uuid4()
            )
        good = made_files.saved(tmp_path, "good", made_files.pdf([("Pears", 12)]))
        assert (
            await extractor.render_page(nullcontext(good), media_type=media_type, page=1, wanted_by=uuid4())
        ).page_count == 1


async def test_pages_wait_for_each_other_and_not_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_MOST_PAGES_WANTED", 3)
    monkeypatch.setattr(workers, "_MOST_PAGES_OF_ONE", 2)
    path = made_files.saved(tmp_path, "file", made_files.pdf([("Pears", 12)]))
    copies: list[int] = [0]

    @asynccontextmanager
    async def copied():
        copies.append(copies[-1] + 1)
        yield path
        copies.append(copies[-1] - 1)

    def wanted(by):
        return extractor.render_page(copied(), media_type="application/pdf", page=1, wanted_by=by)

    ann, ben, cleo = uuid4(), uuid4(), uuid4()
    with closing(Extractor(workers=2, seconds=10, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        found = await asyncio.gather(*map(wanted, (ann, ann, ann, ben, cleo)), return_exceptions=True)
        said = [getattr(each, "code", "rendered") for each in found]
        assert said == ["rendered", "rendered", "rendering_saturated", "rendered", "rendering_saturated"]
        assert max(copies) == 1
        assert (await wanted(ann)).page_count == 1


async def test_a_page_waits_for_other_files_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_PAGE_PATIENCE", 0.05)
    slow = made_files.saved(tmp_path, "slow", b"a,b\n" + b"1,2\n" * 100_000)
    path = made_files.saved(tmp_path, "file", made_files.pdf([("Pears", 12)]))
    with closing(Extractor(workers=1, seconds=60, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        reading = asyncio.create_task(extractor.extract(slow, file_name="a.csv"))
        # So that it comes first: a worker takes files in order.
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as caught:
            await extractor.render_page(nullcontext(path), media_type="application/pdf", page=1, wanted_by=uuid4())
        assert caught.value.code == "rendering_saturated"
        assert (await reading).blocks


async def test_a_file_that_takes_too_much_memory(tmp_path):
    body = WORD_BODY.format(doctype="", text="x").encode().replace(b"<w:p>", b"<w:p/>" * 4_000_000 + b"<w:p>")
    path = made_files.saved(tmp_path, "file", made_files.with_part(WORDS, "word/document.xml", body))
    with closing(Extractor(workers=1, seconds=60, memory_bytes=200 << 20)) as extractor:
        with pytest.raises(UnreadableFile, match="memory") as caught:
            await extractor.extract(path, file_name="a.docx")
        assert caught.value.code == "file_too_complex"


async def kill_readers(extractor, times, *, signal=9, pause=0.3):
    for _ in range(times):
        await asyncio.sleep(pause)
        for pid in readers_of(extractor):
            os.kill(pid, signal)


@pytest.mark.parametrize(("signal", "kills", "is_read"), [(9, 2, True), (9, 40, False), (15, 1, True), (11, 40, False)])
async def test_a_worker_killed_while_reading_costs_no_file(tmp_path, monkeypatch, signal, kills, is_read):
    monkeypatch.setattr(workers, "_PAUSES", (0, 0, 0, 0))
    slow = made_files.saved(tmp_path, "slow", SLOW)
    with closing(Extractor(workers=1, seconds=30, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        reading = asyncio.create_task(extractor.extract(slow, file_name="a.csv"))
        killing = asyncio.create_task(kill_readers(extractor, kills, signal=signal))
        if is_read:
            assert (await reading).blocks
        else:
            with pytest.raises(UnreadableFile, match="crashed the reader"):
                await reading
        killing.cancel()
        await reads_pears(extractor, tmp_path)


class Deadly:
    def __reduce__(self):
        os.kill(os.getpid(), 9)


async def test_a_worker_killed_while_it_answers_stops_no_other(tmp_path):
    with closing(Extractor(workers=2, seconds=30, memory_bytes=1 << 30)) as extractor:
        reading = asyncio.create_task(reads_pears(extractor, tmp_path))
        async with asyncio.timeout(20):
            with pytest.raises((ProcessExpired, RuntimeError)):
                await extractor._pool.run(Deadly)
            await reading
            await reads_pears(extractor, tmp_path)


async def test_an_idle_worker_that_is_killed_costs_nothing(tmp_path):
    with closing(Extractor(workers=2, seconds=10, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        for pid in readers_of(extractor):
            os.kill(pid, 9)
        await asyncio.sleep(0.4)
        await reads_pears(extractor, tmp_path)
        await reads_pears(extractor, tmp_path)


async def test_workers_with_nothing_to_do_end(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0)
    monkeypatch.setattr(workers, "_PAUSES", ())  # it is not read again
    slow = made_files.saved(tmp_path, "slow", SLOW)
    with closing(Extractor(workers=2, seconds=60, memory_bytes=1 << 30)) as extractor:
        reading = asyncio.create_task(extractor.extract(slow, file_name="a.csv"))
        await reads_pears(extractor, tmp_path)
        started = readers_of(extractor)
        assert len(started) == 2
        assert (await reading).blocks
        while any(map(psutil.pid_exists, started)):  # noqa: ASYNC110 - processes tell nobody of their end
            await asyncio.sleep(0.01)
        await reads_pears(extractor, tmp_path)


async def test_cancelling_frees_the_worker(tmp_path):
    slow = made_files.saved(tmp_path, "slow", SLOW)
    with closing(Extractor(workers=1, seconds=60, memory_bytes=1 << 30)) as extractor:
        await extractor.warm()
        reading = asyncio.create_task(extractor.extract(slow, file_name="a.csv"))
        await asyncio.sleep(0.2)
        reading.cancel()
        started = time.monotonic()
        await extractor.extract(made_files.saved(tmp_path, "file", b"pears"), file_name="a.txt")
        assert time.monotonic() - started < 2


async def test_workers_may_not_write_files(tmp_path):
    extractor = Extractor(workers=1, seconds=10, memory_bytes=1 << 30)
    with closing(extractor), pytest.raises(OSError, match="File too large"):
        await extractor._pool.run((tmp_path / "planted").write_bytes, (b"x",))


@pytest.mark.slow
async def test_a_pdf_of_ten_thousand_pages_is_read(tmp_path):
    content = made_files.pdf(*([[("Page of pears", 12)]] * 10_000))
    with closing(Extractor(workers=1, seconds=60, memory_bytes=1 << 30)) as extractor:
        found = await extractor.extract(made_files.saved(tmp_path, "file", content), file_name="a.pdf")
        assert found.blocks[-1].page == 10_000


async def test_workers_have_nothing_of_the_web_loaded():
    with closing(Extractor(workers=1, seconds=10, memory_bytes=1 << 30)) as extractor:
        loaded = "{'fastapi', 'psycopg', 'lxml'} & set(__import__('sys').modules)"
        assert await extractor._pool.run(eval, (loaded,)) == {"lxml"}


async def test_workers_that_are_forked_without_the_parsers_load_them(monkeypatch):
    """Processor time is counted from the fork: the parent process may have begun earlier."""
    bare = forkserver.ForkServer()
    monkeypatch.setattr(forkserver, "connect_to_new_process", bare.connect_to_new_process)
    monkeypatch.setattr(forkserver, "set_forkserver_preload", lambda _: None)
    extractor = Extractor(workers=1, seconds=10, memory_bytes=1 << 30)
    try:
        assert await extractor._pool.run(eval, ("'lxml' in __import__('sys').modules",))
    finally:
        extractor.close()
        bare._stop()


SENDERS = 3
PAUSE_SECONDS = 0.5
MEMORY_BYTES = 400 << 20
SECONDS = 20
# Statuses of what is read, and of a file that is refused for what it is.
EXPECTED = frozenset({200, 400, 413, 415, 422})
# How long others wait for an answer at most: far beyond the usual, far below a file's limit of time.
PATIENCE_SECONDS = 15
# What a worker has before it reads: its limit comes on top.
BEFORE_BYTES = 300 << 20


class Watch:
    """The durations of searches, and the peak memory of the processes that read files."""

    def __init__(self, service) -> None:
        self.waits: list[float] = []
        self.largest_bytes = 0
        self._service = service

    def look(self) -> None:
        began = time.monotonic()
        answer = self._service.call("search/searchDocumentCatalog", {"searchQuery": "harbour"})
        assert answer.status_code == 200, answer.text
        self.waits.append(time.monotonic() - began)
        for child in psutil.Process(self._service.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "forkserver" in " ".join(child.cmdline()):
                    self.largest_bytes = max(self.largest_bytes, child.memory_info().rss)
        time.sleep(PAUSE_SECONDS)


# Names that an archive has twice are what is sent.
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "count", [pytest.param(41, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.long)]
)
def test_hostile_files_cost_their_senders_alone(service_process, count):
    service = service_process(
        CARREL_EXTRACTION_WORKERS="2",
        CARREL_EXTRACTION_SECONDS=str(SECONDS),
        CARREL_EXTRACTION_MEMORY_BYTES=str(MEMORY_BYTES),
        CARREL_OCR="off",
    )
    files = enumerate(mutations(make_seeds(), random.Random(7), count))  # noqa: S311 - no secret
    lock, outcomes, failures = threading.Lock(), Counter(), []

    def send() -> None:
        with httpx.Client(base_url=service.base_url, headers=service.http.headers, timeout=120) as http:
            while True:
                with lock:
                    number, (kind, name, content) = next(files, (None, ("", "", b"")))
                if number is None:
                    return
                try:
                    answer = http.post(
                        "/api/v0/catalog/uploadFile",
                        data={"documentExternalId": f"hostile-{number}"},
                        files={"file": (name, content)},
                    )
                    outcome = answer.status_code
                except httpx.HTTPError as error:
                    outcome = type(error).__name__
                with lock:
                    outcomes[outcome] += 1
                    if outcome not in EXPECTED:
                        failures.append((outcome, kind, name, number))

    watch = Watch(service)
    with going_on(watch.look), ThreadPoolExecutor(SENDERS) as senders:
        for sending in [senders.submit(send) for _ in range(SENDERS)]:
            sending.result()
    print(dict(outcomes), f"longest search {max(watch.waits):.1f} s", f"{watch.largest_bytes >> 20} MB")  # noqa: T201
    assert not failures, failures
    assert outcomes.total() >= count
    assert max(watch.waits) < PATIENCE_SECONDS
    assert 0 < watch.largest_bytes < MEMORY_BYTES + BEFORE_BYTES
