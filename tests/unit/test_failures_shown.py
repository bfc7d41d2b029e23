"""Of what a failed test has logged, the end is shown."""

from tests.harness.logs import LONGEST_LINE, MOST_LINES, VARIABLE, read_log, shorten_log


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
