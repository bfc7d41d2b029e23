"""Logs never contain a secret, and always the request's id; failed tests show their end."""

import io
import json
import logging
import sys

import pytest

from service.platform import logs
from tests.harness.logs import LONGEST_LINE, MOST_LINES, VARIABLE, read_log, shorten_log

# What is written, and the part of it that must not be.
SECRETS = [
    ("svc_key_abcDEF123-._~+/=xyz", "abcDEF123"),
    *((f"svc_{kind}_0123456789", "0123456789") for kind in ("sa", "ac", "ss", "iv", "sc")),
    ("Bearer eyJhbGciOi.something", "eyJhbGciOi"),
    ("bearer   opaque-token", "opaque-token"),
    ("Authorization: Basic aWQ6c3ZjX2NzX3NlY3JldA==", "aWQ6c3ZjX2NzX3NlY3JldA"),
    ("redis://:hunter2@store.example.test:6379", "hunter2"),
    ("postgresql://carrel:hunter2@db.example.test/carrel", "hunter2"),
]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch):
    stream = io.StringIO()
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(root, "handlers", [])
    logs.configure("INFO")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.setLevel(level)


@pytest.mark.parametrize(("written", "secret"), SECRETS)
def test_a_credential_is_redacted_wherever_it_stands(lines, written: str, secret: str) -> None:
    logs.logger.info("told", value=f"before {written} after")
    logging.getLogger("some.library").warning("told %s", written)
    try:
        int(f"told {written}")
    except ValueError:
        logs.logger.exception("failed")
    logged = lines()
    assert len(logged) == 3
    assert json.dumps(logged).count(logs.REDACTED) >= 3
    assert secret not in json.dumps(logged)


def test_lines_carry_the_requests_id(lines) -> None:
    chosen = logs.begin_request("caller-1")
    logs.logger.info("one")
    logging.getLogger("some.library").warning("two")
    assert chosen == "caller-1"
    assert [line["request_id"] for line in lines()] == ["caller-1", "caller-1"]


@pytest.mark.parametrize("offered", [None, "", "a" * 129, "a b", "a\nb", "é", '"'])
def test_an_odd_request_id_is_replaced(offered: str | None) -> None:
    assert logs.begin_request(offered) not in {offered, ""}


def test_the_plugins_of_migrations_are_not_told(lines) -> None:
    logging.getLogger("alembic.runtime.plugins").info("setup plugin")
    logging.getLogger("alembic.runtime.migration").info("Running upgrade")
    assert [line["event"] for line in lines()] == ["Running upgrade"]


def test_the_end_of_a_log_is_shown(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    lines = [f"request {number}" for number in range(1000)]
    hint, *shown = shorten_log("\n".join(lines)).splitlines()
    assert shown == lines[-MOST_LINES:]
    assert f"{VARIABLE}=all shows all" in hint
    for text in ("", "one\n", "one\ntwo", "line\n" * MOST_LINES):
        assert shorten_log(text) == text
    assert len(shorten_log("x" * (2 * LONGEST_LINE))) < LONGEST_LINE + 200
    assert "no log" in read_log(tmp_path / "none")
    monkeypatch.setenv(VARIABLE, "all")
    assert shorten_log("\n".join(lines)) == "\n".join(lines)
