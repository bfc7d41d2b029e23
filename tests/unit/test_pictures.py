"""The pictures of pages in the documentation are as new as the pages."""

from tests.harness.pictures import outdated


def test_every_picture_is_as_new_as_its_page() -> None:
    assert outdated() == [], "run `make pictures`"
