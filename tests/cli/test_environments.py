"""The command line in typical environments, and the exit codes."""

import os
import re
import tomllib
from pathlib import Path

import httpx
import pytest

from carrel._calls import connection_error, error_from
from carrel.errors import ConfigurationError
from flows.errors import FlowError
from flows.settings import FlowSettings, prepare_http
from tests.harness.cases import cases

CASES: dict[str, dict] = tomllib.loads(Path("tests/data/environments.toml").read_text())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_environment_works_or_is_one_sentence(run, library: Path, tmp_path: Path, case: dict) -> None:
    (folder := tmp_path / "empty").mkdir()
    (file := tmp_path / "empty.pem").touch()
    values: dict[str, str] = case.get("env", {})
    changes = {name: None if value == "-" else value.format(folder=folder, file=file) for name, value in values.items()}
    if "remote" in case:
        changes["CARREL_BASE_URL"] = case["remote"]
    ended = run("plan", str(library), **changes)
    assert "Traceback" not in ended.err, ended
    if "says" not in case:
        assert (ended.code, ended.out.partition(",")[0]) == (0, "3 to create"), ended
    else:
        assert ended.code in {2, 4}, ended
        assert case["says"] in ended.err, ended


def test_a_user_without_a_home_folder_is_told_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("os.getuid", lambda: 12345)
    for name in ("HOME", "CARREL_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(FlowError, match="CARREL_DATA_DIR"):
        FlowSettings()


@pytest.mark.parametrize("case", [case for case in CASES.values() if "says" not in case], ids=str)
def test_programs_that_read_the_environment_by_httpx_are_spared_what_it_cannot_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: dict
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.update({name: value.format(folder=tmp_path, file=tmp_path) for name, value in case["env"].items()})
    prepare_http("http://127.0.0.1:8000")
    httpx.Client().close()


def test_a_proxy_that_asks_for_a_password_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    request = httpx.Request("POST", "https://carrel.invalid")
    assert "set HTTPS_PROXY to" in str(error_from(httpx.Response(407, request=request)))
    with pytest.raises(ConfigurationError, match="set HTTPS_PROXY to"):
        connection_error(httpx.ProxyError("407 Proxy Authentication Required", request=request))


SDK_WORDS = re.compile("base_url|api_key|[a-z]_[a-z]+: |=…")


@pytest.mark.parametrize("arguments", [*cases("commands_to_be_changed"), ("collections", "create", "x" * 2000)])
def test_what_is_to_be_changed_in_the_command_ends_it_with_2(run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert ended.code == 2, ended
    assert ended.err
    assert not SDK_WORDS.search(ended.err), ended


@pytest.mark.parametrize(("arguments", "changes", "code"), cases("codes_of_wrong_settings"))
def test_wrong_settings_have_their_codes(run, arguments, changes, code):
    ended = run(*arguments, **changes)
    assert (ended.code, "CARREL_API_KEY" in ended.err) == (code, "CARREL_API_KEY" in changes), ended
    assert not SDK_WORDS.search(ended.err), ended
