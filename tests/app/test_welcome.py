"""What the first page says while an organization is new."""

MEMBER = "jonas@example.test"


def test_an_admin_sees_what_to_begin_with_until_it_is_done_or_dismissed(new_house) -> None:
    """Steps are ticked as things are; once dismissed they stay away, for this person alone."""
    catalog = new_house.client.catalog
    catalog.delete_document(new_house.load("Gone"))
    shown = new_house.open("search").shown
    assert "✓" not in shown
    for address in ("ingestion", "ingestion?job=sample", "collections", "people", "/help/first-hour"):
        assert f'href="{address}"' in shown, address
    assert "three first steps" not in new_house.open("search", q="refund").shown

    document = new_house.load("Refunds", internal_public=True)
    new_house.add_collection("Shelf")
    shown = new_house.open("search").shown
    assert "✓ Done: Load documents" in shown
    assert 'href="ingestion"' not in shown
    assert '<a href="agents"' in shown
    assert "Load documents" not in new_house.open("search").press("Don't show this again").shown
    assert "Load documents" not in new_house.open("search").shown

    new_house.add_people("second@example.test", is_admin=True)
    new_house.add_people(MEMBER)
    assert "✓ Done: Let people in" in new_house.open("search", signed_in_as="second@example.test").shown
    new_house.client.admin.agents.create("Desk")
    assert "✓" not in new_house.open("search", signed_in_as="second@example.test").shown
    assert "nothing here for you" not in new_house.open("search", signed_in_as=MEMBER).shown
    catalog.delete_document(document)
    assert "nothing here for you to find yet" in new_house.open("search", signed_in_as=MEMBER).shown
