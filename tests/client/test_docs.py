"""The guide's code runs as it stands, in its order, against the real service."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.services import RunningService

GUIDE = Path(__file__).parents[2] / "docs" / "sdk.md"


def test_the_guide_runs(service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of docs/sdk.md works for somebody who has only set the two variables."""
    monkeypatch.setenv("CARREL_API_KEY", service.api_key)
    monkeypatch.setenv("CARREL_BASE_URL", service.base_url)
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) > 8
    names: dict[str, object] = {}
    with ThreadPoolExecutor(1) as thread:  # a thread of its own, because the guide starts an event loop
        for block in blocks:
            line = text.count("\n", 0, block.start()) + 1
            code = compile("\n" * line + block[1], str(GUIDE), "exec")
            thread.submit(exec, code, names).result(60)
