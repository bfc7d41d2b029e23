"""The API reference in a browser."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow


def test_the_reference_comes_from_the_service_alone(page: Page, service) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{service.base_url}/docs")
    page.get_by_role("link", name="catalog", exact=True).click()
    operation = page.locator("#operations-catalog-catalog_uploadFile")
    expect(operation).to_be_visible()
    operation.get_by_role("button").first.click()
    expect(operation.get_by_text("The document's identifier in the caller's own system", exact=False)).to_be_visible()
    assert len(asked) >= 5
    assert [address for address in asked if not address.startswith((service.base_url, "data:"))] == []
    assert complaints == []
