"""The audit log on the real service: sentences, filters, exact details, and a file of it."""

import csv
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app.audit.actions import ACTION_TEXTS, sentence
from carrel.wire.oversight import AuditEntry, AuditTarget
from tests.app.conftest import House, html_of, markdown_of
from tests.app.test_documents import load as load_file
from tests.app.test_search import HOSTILE
from tests.app.test_service_accounts import choose
from tests.app.test_who_can_read import exported, group, load, people, press, reference, rows
from tests.harness.jobs import until
from tests.made_files import archive
from tests.oauth.flow import a_person, an_app
from tests.oauth.test_security_log import entries, fail_to_sign_in, wait_for

ADA, BEN, MEMBER = "ada@example.test", "ben@example.test", "jonas@example.test"
RECORDED = re.compile(r'(?:action=|action = |Change\(|_record\([^"\n]*)"([a-zA-Z]+\.[a-zA-Z_]+)"')


def said(page: AppTest) -> list[str]:
    """The sentences of the page's list."""
    return [row["Event"] for row in rows(page)]


def of(key: str) -> str:
    """The id of what an address names."""
    return key.partition(":")[2]


def test_every_action_of_the_service_has_words() -> None:
    """What the service records is what the page can tell, and the other way round."""
    sources = Path(__file__).parents[2].joinpath("service").rglob("*.py")
    recorded = {action for path in sources for action in RECORDED.findall(path.read_text(encoding="utf-8"))}
    assert "grants.set" in recorded
    assert recorded - ACTION_TEXTS.keys() == set()


@pytest.mark.parametrize(
    ("action", "verdict"),
    [("search.feedback", "THUMBS_UP"), ("agent.feedback", "POSITIVE")],
)
def test_feedback_says_which_way_it_went(action: str, verdict: str) -> None:
    """On a search and on a reply alike."""
    against = {"THUMBS_UP": "THUMBS_DOWN", "POSITIVE": "NEGATIVE"}[verdict]

    def told(feedback: str) -> str:
        details = {"feedback": feedback}
        entry = AuditEntry(audit_log_id=uuid4(), at=datetime.now(UTC), action=action, details=details)
        return sentence(entry, {})

    assert told(verdict).endswith(" helpful")
    assert told(against).endswith(" not helpful")


def test_actions_are_sentences_with_names(house: House) -> None:
    """Who was given what on what, whom groups got, and which document came, are told by name, newest first."""
    people(house, ADA, BEN)
    crew = group(house, "Log crew", ADA)
    key = load(house, "Log minutes")
    grants = [{"principal": {"type": "group", "id": crew}, "role": "VIEWER"}]
    house.client.admin.grants.set(reference(key), grants, organization_wide=True)
    house.client.admin.grants.set(reference(key), [])
    assert said(house.open("audit_log", target=of(key))) == [
        "admin removed Viewer access to document “Log minutes” from Log crew and everybody",
        "admin gave Log crew and everybody Viewer access to document “Log minutes”",
        "admin uploaded document “Log minutes”",
    ]
    house.client.admin.groups.remove_members(crew, [{"type": "user", "email": ADA}])
    assert said(house.open("audit_log", target=crew)) == [
        "admin removed Ada from group “Log crew”",
        "admin added Ada to group “Log crew”",
        "admin created group “Log crew”",
    ]


def test_what_is_called_alike_is_told_apart(house: House) -> None:
    """Two accounts and two groups of one name: by their address, and by the end of their id."""
    house.client.admin.organization.update(service_accounts_enabled=True)
    accounts = [house.client.admin.service_accounts.create("Log twin") for _ in range(2)]
    sentences = said(house.open("audit_log", action="serviceAccount.create"))
    assert sentences == [f"admin created service account “Log twin ({one.email})”" for one in reversed(accounts)]
    groups = [
        str(house.client.admin.groups.upsert([{"name": "Log twins", "external_id": one}]).groups[0].id) for one in "ab"
    ]
    told = said(house.open("audit_log", action="group.create"))
    assert [f"admin created group “Log twins (…{one[-6:]})”" for one in reversed(groups)] == told[:2]


def test_a_file_of_the_log_has_all_names(house: House) -> None:
    """Of what stands on a later page, too."""
    load(house, "Named in the file")
    house.client.admin.users.upsert([{"email": f"later{number}@example.test"} for number in range(51)])
    page = house.open("audit_log")
    sentence = "admin uploaded document “Named in the file”"
    assert sentence not in said(page)
    press(page, "Export as CSV")
    assert sentence in exported(page)


def test_what_is_gone_keeps_its_name(house: House) -> None:
    """Of a document that was deleted, found by a part of the name it had; with device and address of who did it."""
    key = load(house, "Gone soon")
    house.client.catalog.delete_document(of(key))
    told = ["admin deleted document “Gone soon”", "admin uploaded document “Gone soon”"]
    assert said(house.open("audit_log", target=of(key))) == told
    page = house.open("audit_log", name="gone SO")
    assert said(page) == told
    assert {(row["Resource"], row["Device"]) for row in rows(page)} == {("Gone soon", "carrel-python · 127.0.0.1")}
    assert "Nothing like this was done." in html_of(house.open("audit_log", name="no such name"))


def test_files_of_an_archive_are_summed_up(house: House) -> None:
    """In one entry, which leads to theirs; by a name, and where that is chosen, each is listed."""
    files = {"in/logged.txt": "One.", "tool.exe": b"MZ\x90\x00"}
    box = load_file(house.client, "Log box", archive(files), file_name="b.zip")
    until(lambda: house.client.catalog.get_document(box).files_done == 2)
    summed_up, uploaded = "admin read 2 files in document “Log box”, 1 left out", "admin uploaded document “logged.txt”"
    told = said(page := house.open("audit_log"))
    assert told[0] == summed_up
    assert uploaded not in told
    assert uploaded in said(house.open("audit_log", files="each"))
    assert uploaded in said(house.open("audit_log", name="logged.t"))
    [entry] = house.client.admin.audit_log.query(action="document.unpack", target_id=str(box))
    press(page := house.open("audit_log", entry=str(entry.audit_log_id)), "All that was done to its files")
    assert said(page) == [uploaded]


def test_what_has_no_name_is_called_by_its_kind() -> None:
    """An entry of before names were kept, about something that is gone."""
    target = {"type": "agent", "id": str(uuid4())}
    entry = AuditEntry(audit_log_id=uuid4(), at=datetime.now(UTC), action="agent.delete", target=target, details={})
    assert sentence(entry, {}) == "The service deleted an agent"
    named = entry.model_copy(update={"target": AuditTarget(**target, name="Policy desk")})
    assert sentence(named, {}) == "The service deleted agent “Policy desk”"
    by_provider = entry.model_copy(update={"details": {"scimTokenName": "Entra"}})
    assert sentence(by_provider, {}) == "Entra (provisioning) deleted an agent"


@pytest.mark.parametrize(
    ("action", "target", "said"),
    [
        ("user.create", ("user", "Ada"), "added Ada"),
        ("group.delete", ("group", "Crew"), "deleted group “Crew”"),
        ("collection.create", ("collection", "Handbook"), "created collection “Handbook”"),
        ("oauthClient.rotateSecret", ("oauthClient", "Intranet"), "changed the secret of application “Intranet”"),
        ("serviceAccountToken.mint", ("serviceAccountToken", "night"), "created token “night” for a service account"),
        ("apiKey.revoke", ("apiKey", "old"), "revoked API key “old”"),
        ("source.remove", ("source", "old share"), "removed source “old share”"),
        ("agent.message", ("agent", None), "asked an agent"),
        ("grants.set", ("GOOGLE_DRIVE_ITEM", "Plan"), "changed access to document “Plan”"),
    ],
)
def test_sentences_have_one_form(action: str, target: tuple[str, str | None], said: str) -> None:
    """A verb, then the kind of a thing with the name that it had then; people by their names alone."""
    kind, name = target
    about = AuditTarget(type=kind, id=str(uuid4()), name=name)
    entry = AuditEntry(audit_log_id=uuid4(), at=datetime.now(UTC), action=action, target=about, details={})
    assert sentence(entry, {about.id: "Another name of today"} if name else {}) == f"The service {said}"


@pytest.mark.parametrize(
    ("action", "details", "said"),
    [
        ("session.fail", {"by": "password"}, "failed to sign in as Ada"),
        ("session.fail", {"by": "secondFactor"}, "gave the right password of Ada, and a wrong second factor"),
        ("session.fail", {"by": "passkey"}, "failed to sign in as Ada with a passkey"),
        ("session.fail", {"by": "secondFactor", "inSession": True}, "failed to prove to be Ada, in a session"),
        ("organization.update", {"secondFactor": "ADMINS"}, "settings: second factor for admins"),
        (
            "organization.update",
            {"enableReranking": True, "enableQueryModel": False, "clientDocumentHosts": ["a.example", "b.example"]},
            "hosts that describe clients: a.example, b.example, reranking on, queries read by the language model off",
        ),
        (
            "organization.update",
            {"serviceAccountsEnabled": False, "domain": "a.test", "nameSet": True},
            "settings: service accounts off, domain a.test, another name",
        ),
        ("organization.update", {}, "changed the organization's settings"),
    ],
)
def test_sentences_say_what_was_wrong_and_what_was_set(action: str, details: dict[str, object], said: str) -> None:
    """A wrong code is no wrong password, and a setting is named with its new value."""
    about = AuditTarget(type="user", id=str(uuid4()), name="Ada")
    entry = AuditEntry(audit_log_id=uuid4(), at=datetime.now(UTC), action=action, target=about, details=details)
    assert said in sentence(entry, {})


def test_an_entry_is_shown_exactly(house: House) -> None:
    """Choosing one shows its ids, details and request id, and leads to all that was done to the same thing."""
    key = load(house, "Exactly")
    entry = next(iter(house.client.admin.audit_log.query(target_id=of(key))))
    page = choose(house.open("audit_log", action="document.create"))
    assert page.query_params["entry"] == str(entry.audit_log_id)
    shown = html_of(page)
    assert shown == html_of(house.open("audit_log", entry=str(entry.audit_log_id)))
    assert entry.request_id is not None
    assert entry.request_id in shown
    assert str(entry.audit_log_id) in shown
    assert of(key) in shown
    assert '"version": 1' in page.code[0].value
    press(page, "All that was done to this")
    assert page.query_params["target"] == of(key)
    assert said(page) == ["admin uploaded document “Exactly”"]


@pytest.mark.parametrize("entry", ["nothing", "0198c5b0-0000-7000-8000-000000000000"])
def test_an_address_of_no_entry_is_said(house: House, entry: str) -> None:
    """With the way back to all."""
    page = house.open("audit_log", entry=entry)
    assert not page.exception
    assert "There is no such entry." in html_of(page)
    assert said(press(page, "All entries"))


def test_feedback_shows_its_comment(house: House) -> None:
    """What somebody said about a result is in the entry, as text and nothing else."""
    search = house.client.search.search_document_catalog("hello")
    house.client.search.submit_search_feedback(
        search_id=search.search_id, feedback="THUMBS_DOWN", comments="<img src=x onerror=alert(1)> not it"
    )
    page = house.open("audit_log", action="search.feedback")
    assert said(page)[0] == "admin judged a search not helpful"
    choose(page)
    assert "They said: &lt;img src=x onerror=alert(1)&gt; not it" in html_of(page)


def test_the_log_is_narrowed_by_person_and_day(house: House) -> None:
    """A person's actions alone, and days of UTC with the last one whole; all of it from the address."""
    a_person(house.service, BEN, name="Ben")
    house.open("search", signed_in_as=BEN)
    page = house.open("audit_log", who=f"user:{BEN}")
    assert said(page)
    assert {sentence.partition(" ")[0] for sentence in said(page)} == {"Ben"}
    today = datetime.now(UTC).date()
    assert said(house.open("audit_log", who=f"user:{BEN}", to=today.isoformat())) == said(page)
    tomorrow = (today + timedelta(days=1)).isoformat()
    assert "Nothing like this was done." in html_of(house.open("audit_log", **{"from": tomorrow}))
    backwards = house.open("audit_log", to=today.isoformat(), **{"from": tomorrow})
    assert "The first day is after the last" in html_of(backwards)


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "yesterday", "2026-02-30"])
def test_an_odd_day_in_the_address_is_no_day(house: House, day: str) -> None:
    """What is no day that there can be entries of narrows nothing and breaks nothing."""
    page = house.open("audit_log", to=day, **{"from": day})
    assert not page.exception
    assert rows(page)


def test_the_log_is_paged_and_exported(house: House) -> None:
    """Fifty entries at a time; the file has all that is filtered, without formulas."""
    house.client.admin.users.upsert([{"email": f"many{number}@example.test", "name": "=1+1"} for number in range(60)])
    page = house.open("audit_log", action="user.create")
    assert len(rows(page)) == 50
    press(page, "Next")
    assert 10 <= len(rows(page)) <= 50
    press(page, "Export as CSV")
    lines = list(csv.DictReader(exported(page).splitlines()))
    assert len(lines) >= 60
    assert {line["Action"] for line in lines} == {"user.create"}
    assert all(line["Request id"] for line in lines if line["Who"])
    assert not [cell for line in lines for cell in line.values() if cell.startswith(("=", "+", "-", "@"))]


def test_looking_through_a_long_log_tells_how_far_it_is() -> None:
    """While pages have no rows; the page with the first ones, or the last one, ends it and the message."""

    def look(*, stopped: bool) -> None:
        from typing import Any  # noqa: PLC0415 - the function is the page

        import streamlit as st  # noqa: PLC0415

        from app.ui.progress import find_rows  # noqa: PLC0415
        from app.ui.tables import ItemsPage  # noqa: PLC0415

        def walk() -> Any:
            yield ItemsPage([], "1")
            yield ItemsPage([], "2")
            if stopped:
                st.stop()
            yield ItemsPage(["found"], "3")

        st.text(find_rows(walk(), rows=lambda page: page.items, most=1000, of="entries").items[0])

    page = AppTest.from_function(look, kwargs={"stopped": True}).run()
    assert "Looked through 2,000 entries so far" in html_of(page)
    page = AppTest.from_function(look, kwargs={"stopped": False}).run()
    assert [each.value for each in page.text] == ["found"]
    assert "Looked through" not in html_of(page)


def test_failed_sign_ins_are_told_with_their_number(house: House) -> None:
    """In the export, too; who tried is somebody, and not the service."""
    pia = a_person(house.service, "pia@failed.test", name="Pia")
    form = pia.open(an_app(house.service))
    assert [fail_to_sign_in(pia, form) for _ in range(2)] == [403, 403]
    wait_for(
        lambda: (
            [one["attempts"] for one in entries(house.service, "session.fail") if one["target"]["name"] == "Pia"] == [2]
        )
    )
    page = house.open("audit_log", action="session.fail", name="Pia")
    press(page, "Export as CSV")
    [line] = csv.DictReader(exported(page).splitlines())
    assert (line["Name"], line["Attempts"], bool(line["Last attempt"])) == ("Pia", "2", True)
    assert "<td>Somebody</td>" in html_of(choose(page))


@pytest.mark.parametrize("name", HOSTILE[:5])
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    """Names in sentences stay text."""
    key = load(house, name)
    page = choose(house.open("audit_log", target=of(key)))
    assert not page.exception
    assert "<script" not in html_of(page)
    assert "<img" not in html_of(page)
    assert name not in markdown_of(page)


def test_a_member_sees_nothing_of_it(house: House) -> None:
    """Not even what they did themselves."""
    a_person(house.service, MEMBER, name="Jonas")
    page = house.open("audit_log", signed_in_as=MEMBER, action="user.create")
    assert "This page is for admins." in html_of(page)
    assert not page.dataframe
