"""Files are stored by content: complete or absent, despite concurrent writers and disk errors."""

import asyncio
import hashlib
import os
import resource
import subprocess
from pathlib import Path

import pytest

from service.platform.errors import InsufficientStorage, Unavailable
from service.platform.files import FileStore
from tests.harness.jobs import until
from tests.harness.processes import environment_without_settings, fork_server, limiting

SMALL = 40_000
LARGE = 12 << 20


@pytest.fixture
def store(tmp_path):
    return FileStore.from_url((tmp_path / "the store").as_uri())


def made(folder: Path, size: int) -> tuple[Path, bytes]:
    path = folder / f"source-{size}"
    path.write_bytes(os.urandom(size))
    return path, hashlib.sha256(path.read_bytes()).digest()


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "the store").rglob("*") if path.is_file()]


async def read(store: FileStore, sha256: bytes) -> bytes:
    return b"".join([piece async for piece in await store.stream(sha256)])


@pytest.mark.parametrize("size", [0, SMALL, LARGE])
async def test_what_is_put_can_be_read(store, tmp_path, size):
    path, sha256 = made(tmp_path, size)
    assert not await store.exists(sha256)
    await store.put(path, sha256)
    assert await store.exists(sha256)
    assert hashlib.sha256(await read(store, sha256)).digest() == sha256
    assert path.stat().st_size == size


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_same_content_many_times_at_once_is_one_object(store, tmp_path, size):
    path, sha256 = made(tmp_path, size)
    await store.put(path, sha256)

    async def read_often() -> None:
        for _ in range(10):
            assert hashlib.sha256(await read(store, sha256)).digest() == sha256

    await asyncio.gather(read_often(), *(store.put(path, sha256) for _ in range(20)))
    assert len(objects(tmp_path)) == 1


async def test_a_file_that_is_gone_is_503_before_the_first_byte(store):
    """A file known to the database but missing in the store is an outage, reported before the response begins."""
    with pytest.raises(Unavailable) as caught:
        await store.stream(b"x" * 32)
    assert caught.value.code == "file_unavailable"


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_full_disk_leaves_nothing_half_there(store, tmp_path, size):
    path, sha256 = made(tmp_path, size)
    with limiting(resource.RLIMIT_FSIZE, SMALL // 2), pytest.raises(InsufficientStorage) as caught:
        await store.put(path, sha256)
    assert caught.value.code == "storage_full"
    assert objects(tmp_path) == []
    await store.put(path, sha256)
    assert await store.exists(sha256)


async def test_a_really_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(  # noqa: ASYNC221 - fixed words; nothing else runs on this loop
        ["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    try:
        full = FileStore.from_url((disk / "the store").as_uri())
        path, sha256 = made(tmp_path, LARGE)
        with pytest.raises(InsufficientStorage) as caught:
            await full.put(path, sha256)
        assert caught.value.code == "storage_full"
        assert objects(disk) == []
    finally:
        subprocess.run(["/bin/umount", str(disk)], check=True)  # noqa: ASYNC221 - see above


@pytest.mark.parametrize("attempt", range(3))
def test_a_kill_while_putting_never_shows_half_a_file(tmp_path, attempt):
    path, sha256 = made(tmp_path, LARGE)
    program = (
        "import asyncio, sys; from pathlib import Path; from service.platform.files import FileStore\n"
        "store = FileStore.from_url(sys.argv[1]); print('ready', flush=True)\n"
        "asyncio.run(store.put(Path(sys.argv[2]), bytes.fromhex(sys.argv[3])))"
    )
    given = (tmp_path / "the store").as_uri(), str(path), sha256.hex()
    with (tmp_path / "output").open("w+b") as out:
        environment, streams = environment_without_settings(), [0, out.fileno(), 2]
        process = fork_server().start("-c", program, *given, environment=environment, streams=streams)
        until(lambda: os.fstat(out.fileno()).st_size > 0)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.002 + 0.004 * attempt)
        process.kill()
        process.wait(60)
    name = sha256.hex()
    found = [each for each in objects(tmp_path) if each.name == name]
    assert all(hashlib.sha256(each.read_bytes()).digest() == sha256 for each in found)
