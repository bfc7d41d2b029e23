"""The number of processors that a process may use."""

import pytest

from service.platform.settings import quotas
from tests.harness.cases import cases


@pytest.mark.parametrize(("groups", "files", "expected"), cases("quotas_of_control_groups"))
def test_quotas_of_control_groups(tmp_path, groups, files, expected) -> None:
    """Of containers and services, in both versions; what can't be read limits nothing."""
    (tmp_path / "groups").write_text(groups) if groups is not None else None
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name("cpu.cfs_period_us").write_text("100000")
    assert list(quotas(tmp_path / "groups", tmp_path / "mount")) == expected
