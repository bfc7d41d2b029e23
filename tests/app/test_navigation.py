"""What of the workbench somebody is shown: nothing before signing in, and the admins' pages to admins alone."""

import pytest
from streamlit.testing.v1 import AppTest

from app.auth import current
from app.navigation import FOR_ADMINS
from carrel import Carrel
from tests.app.conftest import VIEWS, Open, SetUp, draw, html_of, sign_in
from tests.harness.services import RunningService
from tests.oauth.flow import a_person

MEMBER = "jonas@example.test"


def test_nothing_is_shown_before_signing_in(workbench: SetUp, service: RunningService) -> None:
    """Without a session there is the way in, which leads back to the page that was asked for, and no page."""
    workbench(service)
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=60).run()
    assert not page.exception
    assert "/oauth/login?next=" in html_of(page)
    assert not page.text_input
    assert not page.title


def test_what_was_drawn_for_one_person_is_gone_for_the_next(
    workbench: SetUp, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session in the same window finds nothing of the one before, and no session finds nothing at all."""
    workbench(service)
    a_person(service, MEMBER)
    admin, member = sign_in(service), sign_in(service, MEMBER)
    browser = {"cookie": admin}
    monkeypatch.setattr(current, "_cookie", lambda: browser["cookie"])
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=60).run()
    assert service.admin_email in html_of(page)
    page.session_state["answer"] = "the admin's"
    browser["cookie"] = member
    page.run()
    assert "answer" not in page.session_state
    assert service.admin_email not in html_of(page)
    assert MEMBER in html_of(page)
    browser["cookie"] = ""
    page.run()
    assert MEMBER not in html_of(page)


@pytest.mark.parametrize("view", [name for entries in FOR_ADMINS.values() for name, _title, _icon in entries])
def test_an_admins_page_refuses_a_member_by_itself(open_page: Open, service: RunningService, view: str) -> None:
    """Drawn without the navigation before it, a page for admins shows a member nothing but a refusal in words."""
    a_person(service, MEMBER)
    page = open_page(view, signed_in_as=MEMBER)
    assert not page.exception
    assert not page.dataframe
    assert not page.button
    assert "This page is for admins." in html_of(page)


@pytest.mark.parametrize("email", ["", MEMBER])
def test_the_workbenchs_own_key_acts_for_admins_alone(workbench: SetUp, service: RunningService, email: str) -> None:
    """Where pages act with a key, an admin's are told so and do; a member's still act as the member."""
    a_person(service, MEMBER)
    with Carrel(service.api_key, service.base_url) as client:
        client.catalog.upload_file(
            b"The offer for HERON was refused.",
            document_external_id="board",
            file_name="note.txt",
            await_vector_store_sync=True,
        )
    workbench(service, CARREL_APP_API_KEY=service.api_key)
    page = draw("search", session=sign_in(service, email), q="HERON")
    assert not page.exception
    assert ("<mark>HERON</mark>" in html_of(page)) == (not email)
