"""What of the workbench somebody is shown: nothing before signing in, and the admins' pages to admins alone."""

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.auth import container, current
from app.auth.sessions import digest_of
from app.navigation import FOR_ADMINS
from carrel import Carrel
from tests.app.conftest import VIEWS, Open, SetUp, draw, html_of, sign_in
from tests.harness.services import RunningService
from tests.oauth.flow import a_person

MEMBER = "jonas@example.test"
FOR_ADMINS_ALONE = "these pages act with a key of the workbench"
ASKS_FOR_RUNS = """
import streamlit as st
from app.loading.runs import runs
from flows.runs import RunsError

try:
    runs()
    st.text("Here they are.")
except RunsError as error:
    st.text(str(error))
"""
ACTS = """
import streamlit as st
from app import api
from app.auth.current import person_client
from app.loading.runs import runs_to_change
from flows.runs import RunsError

def at_prefect():
    try:
        runs_to_change()
    except RunsError as error:
        return str(error)
    return "done"

def at_the_service():
    api._is_admin_still.clear()  # what five seconds do
    return "as the person" if api.client() is person_client() else "with the key"

st.text(api.me().is_admin)
st.text({where}())
"""


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
    workbench(service, CARREL_APP_API_KEY=service.api_key)
    a_person(service, MEMBER)
    admin, member = sign_in(service), sign_in(service, MEMBER)
    browser = {"cookie": admin}
    monkeypatch.setattr(current, "_cookie", lambda: browser["cookie"])
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=60).run()
    assert service.admin_email in html_of(page)
    assert FOR_ADMINS_ALONE in html_of(page)
    assert f'href="{service.base_url}/account/consents"' in html_of(page)
    page.session_state["answer"] = "the admin's"
    browser["cookie"] = member
    page.run()
    assert "answer" not in page.session_state
    assert service.admin_email not in html_of(page)
    assert MEMBER in html_of(page)
    assert FOR_ADMINS_ALONE not in html_of(page)  # who was an admin is kept for a minute, for one person
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


def test_what_goes_on_after_signing_out_shows_nothing_more(workbench: SetUp, service: RunningService) -> None:
    """A fragment or a button of a tab that is open still is refused, though it acts with the workbench's key."""
    workbench(service, CARREL_APP_API_KEY=service.api_key)
    cookie = sign_in(service)
    page = draw("documents", session=cookie, of="all")
    assert not page.exception
    assert "Your sign-in has ended" not in html_of(page)
    container.sessions().delete(digest_of(cookie))
    page.query_params["name"] = "another"
    page.run()
    assert not page.exception
    assert "Your sign-in has ended" in html_of(page)


def test_runs_are_there_for_who_is_an_admin_and_signed_in_now(workbench: SetUp, service: RunningService) -> None:
    """Prefect asks nobody who they are: a button of a page that is open asks, even when the page isn't drawn anew."""
    workbench(service)
    a_person(service, MEMBER)
    cookie = sign_in(service)

    def asked(cookie: str) -> str:
        st.cache_data.clear()
        page = AppTest.from_string(ASKS_FOR_RUNS, default_timeout=60)
        page.session_state["signed_in.owner"] = digest_of(cookie)
        return page.run().text[0].value

    assert asked(cookie) == "Here they are."
    assert "admins" in asked(sign_in(service, MEMBER))
    container.sessions().delete(digest_of(cookie))
    assert "Your sign-in has ended" in asked(cookie)


@pytest.mark.parametrize(
    ("where", "before", "after"),
    [
        ("at_prefect", "done", "Runs are for admins. Reload this page."),
        ("at_the_service", "with the key", "as the person"),
    ],
)
def test_who_is_no_admin_any_more_does_nothing_more(
    workbench: SetUp, service: RunningService, where: str, before: str, after: str
) -> None:
    """What pages show may be a minute old; what is done at Prefect, or with the workbench's own key, is asked anew."""
    workbench(service, CARREL_APP_API_KEY=service.api_key)
    a_person(service, MEMBER, isAdmin=True)
    st.cache_data.clear()
    page = AppTest.from_string(ACTS.format(where=where), default_timeout=60)
    page.session_state["signed_in.owner"] = digest_of(sign_in(service, MEMBER))
    assert [text.value for text in page.run().text] == ["True", before]
    a_person(service, MEMBER, isAdmin=False)
    assert [text.value for text in page.run().text] == ["True", after]


def _failing() -> None:
    from app.asgi import tell_of_failure  # noqa: PLC0415 - a script of Streamlit's

    assert tell_of_failure(ValueError("the secret of /srv/carrel"))


def test_a_page_that_fails_tells_nothing_of_why_but_where_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    """The person gets a sentence and a reference; under it the log has the error."""
    page = AppTest.from_function(_failing).run()
    assert not page.exception
    assert "This page failed" in html_of(page)
    assert "secret" not in html_of(page)
    reference = html_of(page).partition("Reference: ")[2][:8]
    assert any(reference in record.getMessage() and record.exc_info for record in caplog.records)
