"""The SDK's resources are as `make docs` writes them from the operations."""

from pathlib import Path

import pytest

from scripts import write_resources
from scripts.size import GENERATED


def test_resources_are_what_the_operations_say() -> None:
    generated = write_resources.generate()
    assert {path: path.read_text() for path in generated} == generated
    found = [path for path in write_resources.FOLDER.rglob("*.py") if path.read_bytes().startswith(GENERATED)]
    assert sorted(found) == sorted(generated)


def test_an_operation_needs_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "resources.toml"
    table.write_text(write_resources.TABLE.read_text().replace('"catalog/*"', '"catalogue/*"'))
    monkeypatch.setattr(write_resources, "TABLE", table)
    with pytest.raises(LookupError, match=r"resources\.toml has no class for catalog/planUpload"):
        write_resources.generate()
