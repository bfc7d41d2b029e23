"""What the first page says while an organization is new."""

from collections.abc import Iterator

import pytest

from carrel import Carrel
from tests.app.conftest import Open, html_of
from tests.app.pressing import press
from tests.harness.services import RunningService
from tests.oauth.flow import PASSWORD

MEMBER = "jonas@example.test"


@pytest.fixture
def client(service: RunningService) -> Iterator[Carrel]:
    """The admin's client."""
    with Carrel(service.api_key, service.base_url) as client:
        yield client


def test_an_admin_sees_what_to_begin_with_until_it_is_done_or_dismissed(open_page: Open, client: Carrel) -> None:
    """Steps are ticked as things are; once dismissed they stay away, for this person alone."""
    upload = client.catalog.upload_file
    client.catalog.delete_document(upload(b"x", file_name="x.txt", document_external_id="x").document_id)
    shown = html_of(open_page("search"))
    assert "✓" not in shown
    for address in ("ingestion", "ingestion?job=sample", "collections", "people", "/help/first-hour"):
        assert f'href="{address}"' in shown, address
    assert "three first steps" not in html_of(open_page("search", q="refund"))

    document = client.catalog.upload_file(
        b"Refunds.", file_name="a.txt", document_external_id="a", internal_public=True
    )
    client.document_collections.create_document_collection("Shelf")
    shown = html_of(open_page("search"))
    assert "✓ Done: Load documents" in shown
    assert 'href="ingestion"' not in shown
    assert '<a href="agents"' in shown
    page = press(open_page("search"), "Don't show this again")
    assert "Load documents" not in html_of(page)
    assert "Load documents" not in html_of(open_page("search"))

    others = {"email": "second@example.test", "name": "Second", "is_admin": True, "password": PASSWORD}
    client.admin.users.upsert([others, {"email": MEMBER, "name": "Jonas", "password": PASSWORD}])
    shown = html_of(open_page("search", signed_in_as="second@example.test"))
    assert "✓ Done: Let people in" in shown
    client.admin.agents.create("Desk")
    assert "✓" not in html_of(open_page("search", signed_in_as="second@example.test"))
    assert "nothing here for you" not in html_of(open_page("search", signed_in_as=MEMBER))
    client.catalog.delete_document(document.document_id)
    assert "nothing here for you to find yet" in html_of(open_page("search", signed_in_as=MEMBER))
