"""The audit log page on the real service: sentences, filters, details, and export."""

import csv
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from app.audit import ACTION_TEXTS, sentence
from carrel.wire.oversight import AuditEntry, AuditTarget
from tests.app.pages import HOSTILE_CASES, Page, reference
from tests.harness.cases import cases
from tests.harness.jobs import until
from tests.made_files import archive
from tests.oauth.flow import a_person, an_app
from tests.oauth.test_sessions import entries, fail_to_sign_in

ADA, BEN = "ada@example.test", "ben@example.test"
RECORDED = re.compile(r'(?:action=|action = |Change\(|_record\([^"\n]*)"([a-zA-Z]+\.[a-zA-Z_]+)"')


def said(page: Page) -> list[str]:
    return page.column("Event")


def of(key: str) -> str:
    return key.partition(":")[2]


def told(action: str, kind: str = "", name: str | None = None, **details) -> str:
    """Return the sentence of an entry without author, about an object renamed since."""
    target = AuditTarget(type=kind, id=str(uuid4()), name=name) if kind else None
    entry = AuditEntry(audit_log_id=uuid4(), at=datetime.now(UTC), action=action, target=target, details=details)
    return sentence(entry, {target.id: "Another name of today"} if target and name else {})


def test_every_action_of_the_service_has_words() -> None:
    sources = Path(__file__).parents[2].joinpath("service").rglob("*.py")
    recorded = {action for path in sources for action in RECORDED.findall(path.read_text(encoding="utf-8"))}
    assert "grants.set" in recorded
    assert recorded - ACTION_TEXTS.keys() == set()


def test_actions_are_sentences_with_names(house) -> None:
    house.add_people(ADA, BEN)
    crew = house.add_group("Log crew", ADA)
    key = house.load_resource("Log minutes")
    grants = [{"principal": {"type": "group", "id": crew}, "role": "VIEWER"}]
    house.client.admin.grants.set(reference(key), grants, organization_wide=True)
    house.client.admin.grants.set(reference(key), [])
    assert said(house.open("audit_log", target=of(key))) == [
        "admin removed Viewer access to document “Log minutes” from Log crew and everyone",
        "admin gave Log crew and everyone Viewer access to document “Log minutes”",
        "admin uploaded document “Log minutes”",
    ]
    house.client.admin.groups.remove_members(crew, [{"type": "user", "email": ADA}])
    assert said(house.open("audit_log", target=crew)) == [
        "admin removed Ada from group “Log crew”",
        "admin added Ada to group “Log crew”",
        "admin created group “Log crew”",
    ]


def test_what_is_called_alike_is_told_apart(house) -> None:
    house.client.admin.organization.update(service_accounts_enabled=True)
    accounts = [house.client.admin.service_accounts.create("Log twin") for _ in range(2)]
    sentences = said(house.open("audit_log", action="serviceAccount.create"))
    assert sentences == [f"admin created service account “Log twin ({one.email})”" for one in reversed(accounts)]
    groups = [house.add_group("Log twins", externalId=one) for one in "ab"]
    sentences = said(house.open("audit_log", action="group.create"))
    assert [f"admin created group “Log twins (…{one[-6:]})”" for one in reversed(groups)] == sentences[:2]


def test_what_is_gone_keeps_its_name(house) -> None:
    key = house.load_resource("Gone soon")
    house.client.catalog.delete_document(of(key))
    sentences = ["admin deleted document “Gone soon”", "admin uploaded document “Gone soon”"]
    assert said(house.open("audit_log", target=of(key))) == sentences
    page = house.open("audit_log", name="gone SO")
    assert said(page) == sentences
    assert {(row["Resource"], row["Device"]) for row in page.rows()} == {("Gone soon", "carrel-python · 127.0.0.1")}
    assert "No entries match." in house.open("audit_log", name="no such name").shown


def test_files_of_an_archive_are_summed_up(house) -> None:
    files = {"in/logged.txt": "One.", "tool.exe": b"MZ\x90\x00"}
    box = house.load("Log box", archive(files), file_name="b.zip")
    until(lambda: house.client.catalog.get_document(box).files_done == 2)
    summed_up, uploaded = "admin read 2 files in document “Log box”, 1 left out", "admin uploaded document “logged.txt”"
    assert said(page := house.open("audit_log"))[0] == summed_up
    assert uploaded not in said(page)
    assert uploaded in said(house.open("audit_log", files="each"))
    assert uploaded in said(house.open("audit_log", name="logged.t"))
    [entry] = house.client.admin.audit_log.query(action="document.unpack", target_id=str(box))
    page = house.open("audit_log", entry=str(entry.audit_log_id)).press("All events of its files")
    assert said(page) == [uploaded]


@pytest.mark.parametrize(("action", "target", "said"), cases("sentences_of_the_audit_log"))
def test_sentences_have_one_form(action: str, target: tuple[str, str | None], said: str) -> None:
    assert told(action, *target) == f"The service {said}"


@pytest.mark.parametrize(("details", "said"), cases("a_wrong_code_is_no_wrong_password"))
def test_a_wrong_code_is_no_wrong_password(details: dict, said: str) -> None:
    assert told("session.fail", "user", "Ada", **details) == f"Someone {said}"


@pytest.mark.parametrize(("details", "said"), cases("a_setting_is_named_with_its_new_value"))
def test_a_setting_is_named_with_its_new_value(details: dict, said: str) -> None:
    assert said in told("organization.update", "organization", **details)


def test_sentences_name_who_did_it_and_which_way_feedback_went() -> None:
    assert told("agent.delete", "agent", scimTokenName="Entra") == "Entra (provisioning) deleted an agent"
    for action, helpful, not_helpful in (
        ("search.feedback", "THUMBS_UP", "THUMBS_DOWN"),
        ("agent.feedback", "POSITIVE", "NEGATIVE"),
    ):
        assert told(action, feedback=helpful).endswith(" helpful")
        assert told(action, feedback=not_helpful).endswith(" not helpful")


def test_an_entry_is_shown_exactly(house) -> None:
    key = house.load_resource("Exactly")
    entry = next(iter(house.client.admin.audit_log.query(target_id=of(key))))
    page = house.open("audit_log", action="document.create").choose()
    assert page.address["entry"] == str(entry.audit_log_id)
    shown = page.shown
    assert shown == house.open("audit_log", entry=str(entry.audit_log_id)).shown
    assert entry.request_id is not None
    assert entry.request_id in shown
    assert str(entry.audit_log_id) in shown
    assert of(key) in shown
    assert '"version": 1' in page.code[0].value
    page.press("All events of this resource")
    assert page.address["target"] == of(key)
    assert said(page) == ["admin uploaded document “Exactly”"]


def test_feedback_shows_its_comment(house) -> None:
    search = house.client.search.search_document_catalog("hello")
    house.client.search.submit_search_feedback(
        search_id=search.search_id, feedback="THUMBS_DOWN", comments="<img src=x onerror=alert(1)> not it"
    )
    page = house.open("audit_log", action="search.feedback")
    assert said(page)[0] == "admin judged a search not helpful"
    page.choose()
    assert "Comment: &lt;img src=x onerror=alert(1)&gt; not it" in page.shown


def test_the_log_is_narrowed_by_person_and_day(house) -> None:
    house.add_people("cleo@example.test")
    house.open("search", signed_in_as="cleo@example.test")
    page = house.open("audit_log", who="user:cleo@example.test")
    assert "carrel-chosen" not in page.shown, "in a line of filters the choice is a button"
    assert {sentence.partition(" ")[0] for sentence in said(page)} == {"Cleo"}
    today = datetime.now(UTC).date()
    assert said(house.open("audit_log", who="user:cleo@example.test", to=today.isoformat())) == said(page)
    assert "who" not in page.press("By or for whom: ` Cleo `").address
    tomorrow = (today + timedelta(days=1)).isoformat()
    assert "No entries match." in house.open("audit_log", **{"from": tomorrow}).shown
    backwards = house.open("audit_log", to=today.isoformat(), **{"from": tomorrow})
    assert "The first day is after the last" in backwards.shown


def test_an_odd_day_in_the_address_is_no_day(house) -> None:
    for day in ("9999-12-31", "0001-01-01", "yesterday", "2026-02-30"):
        assert house.open("audit_log", to=day, **{"from": day}).rows(), day


def test_the_log_is_paged_and_exported(house) -> None:
    house.load_resource("Named in the file")
    house.client.admin.users.upsert([{"email": f"many{number}@example.test", "name": "=1+1"} for number in range(60)])
    page, sentence = house.open("audit_log"), "admin uploaded document “Named in the file”"
    assert sentence not in said(page)
    assert sentence in page.press("Export as CSV").exported
    page = house.open("audit_log", action="user.create")
    assert len(page.rows()) == 50
    assert 10 <= len(page.press("Next").rows()) <= 50
    lines = list(csv.DictReader(page.press("Export as CSV").exported.splitlines()))
    assert len(lines) >= 60
    assert {line["Action"] for line in lines} == {"user.create"}
    assert all(line["Request id"] for line in lines if line["Who"])
    assert not [cell for line in lines for cell in line.values() if cell.startswith(("=", "+", "-", "@"))]


def test_looking_through_a_long_log_tells_how_far_it_is() -> None:
    def look(*, stopped: bool) -> None:

        import streamlit as st  # noqa: PLC0415

        from app.ui.progress import find_rows  # noqa: PLC0415
        from app.ui.tables import ItemsPage  # noqa: PLC0415

        def walk():
            yield ItemsPage([], "1")
            yield ItemsPage([], "2")
            if stopped:
                st.stop()
            yield ItemsPage(["found"], "3")

        st.text(find_rows(walk(), rows=lambda page: page.items, most=1000, of="entries").items[0])

    assert "Looked through 2,000 entries so far" in Page.from_function(look, kwargs={"stopped": True}).run().shown
    page = Page.from_function(look, kwargs={"stopped": False}).run()
    assert page.texts == ["found"]
    assert "Looked through" not in page.shown


def test_failed_sign_ins_are_told_with_their_number(house) -> None:
    pia = a_person(house.service, "pia@failed.test", name="Pia")
    form = pia.open(an_app(house.service))
    assert [fail_to_sign_in(pia, form) for _ in range(2)] == [403, 403]
    until(
        lambda: (
            [one["attempts"] for one in entries(house.service, "session.fail") if one["target"]["name"] == "Pia"] == [2]
        )
    )
    page = house.open("audit_log", action="session.fail", name="Pia").press("Export as CSV")
    [line] = csv.DictReader(page.exported.splitlines())
    assert (line["Name"], line["Attempts"], bool(line["Last attempt"])) == ("Pia", "2", True)
    assert "<td>Someone</td>" in page.choose().shown


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_in_sentences_are_only_text(house, name: str) -> None:
    house.open("audit_log", target=of(house.load_resource(name))).choose().assert_shown_as_text()
