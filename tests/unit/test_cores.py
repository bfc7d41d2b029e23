"""The number of processors that a process may use."""

from pathlib import Path

import pytest

from service.platform.settings import quotas


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {"cpu.max": "100000 100000"}, [1.0]),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}, [2.5]),
        ("4:cpu,cpuacct:/docker/x", {"cpu,cpuacct/cpu.cfs_quota_us": "50000"}, [0.5]),
        ("4:cpu:/x", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_quota_us": "300000"}, [3.0]),
        ("9:memory:/x\nnonsense\n", {}, []),
        (None, {}, []),
    ],
)
def test_quotas_of_control_groups(
    tmp_path: Path, groups: str | None, files: dict[str, str], expected: list[float]
) -> None:
    """Of containers and services, in both versions; what can't be read limits nothing."""
    (tmp_path / "groups").write_text(groups) if groups is not None else None
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name("cpu.cfs_period_us").write_text("100000")
    assert list(quotas(tmp_path / "groups", tmp_path / "mount")) == expected
