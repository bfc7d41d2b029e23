"""What `make up` prints when everything is up."""

import re

from sample.__main__ import GREETING
from tests.harness.services import RunningService


def test_every_page_of_the_service_that_is_named_is_there(service: RunningService) -> None:
    """A link that a new user is given opens."""
    pages = re.findall(r"\{service\}(/\S+)", GREETING)
    assert pages
    assert [service.http.get(page).status_code for page in pages] == [200] * len(pages)
