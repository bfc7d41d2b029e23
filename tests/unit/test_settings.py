"""Settings that don't fit together are refused in words."""

from pathlib import Path

import pytest

from service.platform.settings import Settings


@pytest.mark.parametrize(
    ("archive", "files", "named"),
    [
        ("file://{data}", None, "DATA_DIR"),
        ("file://{data}/", None, "DATA_DIR"),
        ("file://{data}/archive", None, "DATA_DIR"),
        ("file://{data}/elsewhere/../../", None, "DATA_DIR"),
        ("file://{data}-archive", None, None),
        ("s3://b/carrel", "s3://b/carrel", "FILES_URL"),
        ("s3://b/carrel/", "s3://b/carrel/files", "FILES_URL"),
        ("s3://b", "s3://b/files", "FILES_URL"),
        ("s3://b/files//archive", "s3://b/files", "FILES_URL"),
        ("file://{data}-files", "file://{data}-files", "FILES_URL"),
        ("s3://b/archive", "s3://b/files", None),
        ("s3://archive", "s3://files", None),
        ("s3://b/files", "gs://b/files", None),
    ],
)
def test_an_archive_is_a_place_of_its_own(tmp_path: Path, archive: str, files: str | None, named: str | None) -> None:
    """Neither the data folder's or the file store's, nor within one of them or around it."""
    data = tmp_path / "data"
    archive, files = archive.format(data=data), files and files.format(data=data)
    if named is None:
        assert Settings(data_dir=data, archive_url=archive, files_url=files).archive_url == archive
        return
    with pytest.raises(ValueError, match=f"neither that of CARREL_{named}"):
        Settings(data_dir=data, archive_url=archive, files_url=files)
