"""The file of deployments: serving, refusals, and following of changes."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from prefect.runner import Runner

from flows import serving
from flows.deployments import Entry, read_deployments, read_served
from flows.errors import DeploymentsError
from flows.runs import DEPLOYMENT
from flows.settings import SHIPPED
from tests.harness.cases import cases

UPLOAD = "flows.bulk_upload.bulk_upload"


def test_a_file_of_ones_own_has_what_people_start(tmp_path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"deployments:\n  - {{name: nightly, entrypoint: {UPLOAD}, parameters: {{source: /srv}}}}\n")
    own = {(entry.flow.name, entry.name) for entry in read_deployments(SHIPPED)}
    assert {(entry.flow.name, entry.name) for entry in read_served(path)} == {*own, ("bulk-upload", "nightly")}
    path.write_text(f"deployments:\n  - {{name: carrel, entrypoint: {UPLOAD}, description: Ours}}\n")
    served = read_served(path)
    assert {(entry.flow.name, entry.name) for entry in served} == own
    assert [entry.description for entry in served if entry.flow.name == "bulk-upload"] == ["Ours"]


# People start `carrel`, and give the parameters; another entry runs by itself.
@pytest.mark.parametrize(("text", "said"), cases("mistakes_in_files_of_deployments"))
def test_a_mistake_is_said(tmp_path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    (tmp_path / "breaks_when_imported.py").write_text("raise RuntimeError('nothing here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(DeploymentsError) as raised:
        read_deployments(path)
    assert said in str(raised.value)


def test_a_key_without_a_value_is_empty(tmp_path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"deployments:\n  - name: carrel\n    entrypoint: {UPLOAD}\n    parameters:\n    schedules:\n")
    [entry] = read_deployments(path)
    assert (entry.parameters, entry.schedules) == ({}, [])


EMPTY = "deployments: []\n"


def _entry(name: str) -> str:
    return f"deployments:\n  - name: {name}\n    entrypoint: flows.permission_snapshot.permission_snapshot\n"


class Followed:
    """A followed file; `registered` are the names at each success, except Carrel's own; `troubles` come first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []
        self.registered: list[list[str]] = []
        self.troubles: list[Exception] = []
        self.tries = 0

    async def register(self, entries: Sequence[Entry], **_: object) -> list[str]:
        self.tries += 1
        if self.troubles:
            raise self.troubles.pop(0)
        self.registered.append([entry.name for entry in entries if entry.name != DEPLOYMENT])
        return ["old"]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - what happens has no event
                await asyncio.sleep(0.01)


@pytest.fixture
async def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Followed]:
    one = Followed(tmp_path / "deployments.yaml")
    one.path.write_text(EMPTY)
    monkeypatch.setattr(serving, "_LOOKING", 0.05)
    monkeypatch.setattr(serving, "register", one.register)
    seen = serving._mark(one.path)
    following = serving._follow_file(one.path, seen=seen, runner=cast("Runner", None), say=one.said.append)
    task = asyncio.create_task(following)
    yield one
    assert not task.done()
    task.cancel()


async def test_change_is_tried_again_until_prefect_takes_it(followed: Followed) -> None:
    followed.troubles = [httpx.ConnectError("away"), RuntimeError("unforeseen"), httpx.ConnectError("away")]
    followed.path.write_text(_entry("nightly"))
    await followed.until(lambda: followed.registered)
    assert (followed.registered, followed.tries) == ([["nightly"]], 4)
    assert "nightly" in followed.said[-1]
    assert "old" in followed.said[-1]


async def test_wrong_file_is_said_once_and_a_mended_one_taken(followed: Followed) -> None:
    followed.path.write_text("deployments:\n  - name: x\n")
    await followed.until(lambda: followed.said)
    await asyncio.sleep(0.3)
    assert (len(followed.said), followed.registered) == (1, [])
    followed.path.write_text(_entry("mended"))
    await followed.until(lambda: followed.registered)
    assert followed.registered == [["mended"]]


async def test_file_that_is_being_written_is_left_until_it_rests(followed: Followed) -> None:
    """A cut file can be valid, so it counts when equal at two looks."""
    for number in range(12):
        followed.path.write_text(EMPTY + "#" * number)
        await asyncio.sleep(0.03)
    followed.path.write_text(_entry("whole"))
    await followed.until(lambda: followed.registered)
    assert followed.registered == [["whole"]]
