"""Fixtures shared by tests of extraction."""

from collections.abc import Callable

import pytest
from hypothesis import settings

from service.text.extraction.building import Limits
from service.text.extraction.parsing import parse_file
from service.text.reading import Extraction
from tests import made_files

settings.register_profile("tests", deadline=None)  # how long an example takes depends on the machine
settings.load_profile("tests")


@pytest.fixture
def extract(tmp_path) -> Callable[..., Extraction]:
    """Parse content under a name, with other limits if given: `extract("a.txt", b"words", pages=1)`."""

    def run(name: str, content: bytes, **limits: object) -> Extraction:
        path = made_files.saved(tmp_path, "file", content)
        found = parse_file(path, name, Limits(**limits))
        assert path.read_bytes() == content, "what is read is changed"
        return found

    return run


@pytest.fixture
def texts(extract) -> Callable[..., list[str]]:
    return lambda name, content: [block.text for block in extract(name, content).blocks]
