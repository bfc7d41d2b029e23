"""Output of runs for people and for programs, also after unexpected errors."""

import json
from unittest.mock import AsyncMock, Mock

import pytest

from carrel import InvalidArgumentError, NotFoundError
from cli.app import run
from cli.runs import show_end, show_plan
from cli.screen import Screen
from cli.sync import _filter
from flows.operations.ledger.ledger import Ledger
from flows.operations.options import ReindexOptions
from flows.operations.plan import read_plan
from flows.operations.reindexing import Reindexed, _Reindexing
from flows.operations.scan import Scanned
from flows.operations.sources.documents import Problem
from flows.operations.summary import Summary, summarize

NAME = "notes:ship:[bold]\\"


def test_json_says_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=True).json({"failures": [NAME, "ä"]})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"failures": [NAME, "ä"]}


def test_end_and_plan_name_what_is_not_loaded_as_it_is(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.at(tmp_path, target="t", source="s") as ledger:
        ledger.begin()
        ledger.record_problems([Problem(place=NAME, code="file_missing", message="the file does not exist.")])
        show_end(summarize(ledger), ledger, screen=Screen(as_json=False))
        assert NAME in capsys.readouterr().out
        show_plan(read_plan(ledger), Scanned(problems=1), ledger, [], screen=Screen(as_json=False))
    assert f"! {NAME}  file_missing: the file does not exist." in capsys.readouterr().out


def test_a_filter_file_that_is_no_text_is_refused(tmp_path) -> None:
    (tmp_path / "filter.json").write_bytes(b"\xff")
    with pytest.raises(InvalidArgumentError, match="--filter is not valid JSON"):
        _filter(f"@{tmp_path / 'filter.json'}")


async def test_a_document_deleted_while_it_is_indexed_counts_no_more() -> None:
    gone = AsyncMock(side_effect=NotFoundError("Gone.", status=404, code="document_not_found"))
    reindexing = _Reindexing(Mock(), Mock(call=gone), "id", ReindexOptions(), None, Reindexed(documents=2, wanted=1))
    assert not await reindexing._check_running(Mock())
    assert reindexing.done.text().startswith("1 documents: 0 re-indexed (0 of 0 chunks embedded), 1 unchanged, 0 still")


def test_counts_add_up() -> None:
    summary = Summary(documents=3, to_send=2, created=1, unchanged=1, failed=1, problems=2)
    assert summary.text() == "5 documents: 1 created, 0 updated, 1 unchanged, 3 in quarantine; 0 bytes sent"


@pytest.fixture
def _blue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.app.app", Mock(side_effect=RuntimeError("out of\nthe blue")))
    monkeypatch.delenv("CARREL_LOG", raising=False)


@pytest.mark.usefixtures("_blue")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_unexpected_error_is_one_line_and_a_code_of_its_own(options, capsys):
    assert run(["plan", "reports", *options]) == 70
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    assert "RuntimeError: out of" in err
    assert "CARREL_LOG=debug" in err
    answer = json.loads(out or "{}")
    assert [answer.get("outcome"), answer.get("exitCode")] == (["unexpected", 70] if options else [None, None])


@pytest.mark.usefixtures("_blue")
def test_traceback_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_LOG", "debug")
    assert run(["plan", "reports"]) == 70
    assert "Traceback" in capsys.readouterr().err
