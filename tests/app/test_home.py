"""The first page of a new organization, and before any question."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import Mock
from uuid import uuid4

import carrel
from tests.app.conftest import House
from tests.app.pages import MARKUP, Page
from tests.service.conversations import ADA, BEN, a_desk
from tests.service.directory import user

TITLES = ("Open alerts", "Failed documents", "Questions without an answer", "Expiring credentials")
QUIET = (
    "No open alerts.",
    "Every document was loaded",
    "No unanswered questions in the last seven days",
    "No token or key expires",
)


def cards(page: Page) -> dict[str, str]:
    return dict(re.findall(r'<section class="carrel-card"><h3>(.*?)</h3>(.*?)</section>', page.shown))


def test_each_card_counts_names_and_leads_to_where_to_act(new_house: House, monkeypatch) -> None:
    assert cards(new_house.open("search")) == {}, "its first steps come first"
    document = new_house.load(MARKUP)
    quiet = cards(new_house.open("search"))
    assert [said for said, body in zip(QUIET, (quiet[one] for one in TITLES), strict=True) if said not in body] == []
    new_house.add_people(ADA, BEN)
    new_house.break_index(document, "It is torn.")
    report = partial(new_house.client.alerts.report_run, flow="bulk-upload", source=MARKUP)
    report(run := uuid4(), "FAILED", subject="a", flow_run_id=run, code="source_unreadable")
    report(uuid4(), "FAILED", subject="b", code="source_unreadable")
    report(uuid4(), "COMPLETED", subject="b")
    key = new_house.client.admin.api_keys.create(MARKUP, expires_at=datetime.now(UTC) + timedelta(days=3))
    (desk := a_desk(new_house.service, MARKUP)).ask(userEmail=ADA)
    question = desk.ask("What does a zeppelin pilot earn in Peru?", userEmail=ADA)
    new_house.grant("UPLOADED_DOCUMENT", document, user(BEN), user(ADA))
    new_house.grant("UPLOADED_DOCUMENT", document, user(BEN))
    root, upsert = new_house.service.admin_email, new_house.client.admin.users.upsert
    upsert([{"email": root, "name": "Another name"}])
    page = new_house.open("search")
    page.assert_shown_as_text(MARKUP)
    found = cards(page)
    places = (
        f"ingestion?run={run}",
        "documents?of=all&amp;state=failed",
        question["messageId"],
        f"api_keys?key={key.api_key_id}",
    )
    expected = zip(TITLES, places, strict=True)
    assert [one for one, where in expected if ">1</p>" not in found[one] or where not in found[one]] == []
    access = found["New access in the last seven days"]
    assert ("gave Ada and Ben Viewer access" in access, "removed Viewer access" in access) == (True, False)
    assert ("(an admin)" in access, 'href="audit_log?action=more-access&amp;files=each&amp;from=' in access) == (
        False,
        True,
    )
    for title in ("Blocked deletions", "Loading runs in the last 24 hours"):
        assert "This can't be read now. Prefect" in found[title]
    upsert([{"email": BEN, "is_admin": True}])
    new_house.service.execute("UPDATE questions SET outcome = 'FAILED' WHERE turn_id = %s", [question["messageId"]])
    found = cards(new_house.open("search"))
    assert "changed Ben (an admin)" in (access := found["New access in the last seven days"])
    entries = new_house.open("audit_log", action="more-access", files="each").cells("Event")
    assert f">{len(entries)}</p>" in access
    assert question["messageId"] in found["Questions without an answer"]
    # Steps that can't be read leave out no card. A card that has not looked at everything says so.
    monkeypatch.setattr("app.home.first_steps", Mock(side_effect=carrel.APITimeoutError("slow")))
    monkeypatch.setattr("app.audit.WIDENING", ["grants.set"])
    monkeypatch.setattr("app.home._LOOKED_THROUGH", 1)
    said = cards(new_house.open("search"))["New access in the last seven days"]
    assert ("None in the newest entries." in said, "No new access" in said) == (True, False)


def test_a_reader_sees_their_documents_and_agents_and_nobody_elses(new_house: House) -> None:
    new_house.add_people(ADA, BEN)
    new_house.load("For Ada")
    mine = new_house.load("For Ben", internal_public=True)
    desk = a_desk(new_house.service, "Desk of Ben")
    desk.deploy(BEN)
    page = new_house.open("search", signed_in_as=BEN)
    assert cards(page) == {}
    seen = (f'href="documents?document={mine}"', f'href="chat?agent={desk.agent_id}"', "For Ada")
    assert [one in page.shown for one in seen] == [True, True, False]
    assert "Desk of Ben" not in new_house.open("search", signed_in_as=ADA).shown


MEMBER = "jonas@example.test"


def test_an_admin_sees_what_to_begin_with_until_it_is_done_or_dismissed(new_house) -> None:
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
    assert "✓ Done: Invite people" in new_house.open("search", signed_in_as="second@example.test").shown
    new_house.client.admin.agents.create("Desk")
    assert "✓" not in new_house.open("search", signed_in_as="second@example.test").shown
    assert "no documents that you can read yet" not in new_house.open("search", signed_in_as=MEMBER).shown
    catalog.delete_document(document)
    assert "no documents that you can read yet" in new_house.open("search", signed_in_as=MEMBER).shown
