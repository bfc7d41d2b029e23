"""Dialogs: what two clicks, another page and a closed dialog do to what they are for."""

from tests.app.pages import Page


def run(script: object) -> Page:
    return Page.from_function(script).run()


def broken() -> None:
    """A form and a confirmation whose actions have a fault."""
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    def fail() -> None:
        raise ZeroDivisionError

    dialogs.open_dialog("mint")
    dialogs._submit("mint", fail)
    dialogs.offer_submit("mint", "Mint", action=fail)
    st.text(str(dialogs.is_open("mint")))
    dialogs._do(fail)
    dialogs._show_problem(fail)


def test_an_error_that_nobody_foresaw_is_shown_in_the_dialog(caplog) -> None:
    """The page behind would show it to nobody: the button would seem to do nothing. Its traceback is logged."""
    page = run(broken)
    shown = [block.proto.body for block in page.get("html")]
    assert [text for text in shown if "error in the workbench itself" in text] == shown
    assert len(shown) == 2
    assert page.text[0].value == "True"
    assert "ZeroDivisionError" in caplog.text


def mistaken() -> None:
    """A form that is wrong, then right and sent by two clicks: their callbacks run before anything is drawn."""
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    def refuse() -> None:
        raise dialogs.NotYetError("Give it a name.")

    dialogs.open_dialog("mint")
    dialogs._submit("mint", refuse)
    st.text(str(dialogs.is_open("mint")))
    dialogs.offer_submit("mint", "Mint", action=lambda: None)
    submitted, confirmed = list[int](), list[int]()
    for _ in range(2):
        dialogs._submit("mint", lambda: submitted.append(1))
        dialogs._do(lambda: confirmed.append(1))
    st.text(str(dialogs.is_open("mint")))
    st.text(f"{len(submitted)} {len(confirmed)}")


def test_a_mistake_leaves_the_dialog_open_and_two_clicks_do_it_once() -> None:
    page = run(mistaken)
    assert "Give it a name." in page.get("html")[0].proto.body
    assert page.texts == ["True", "False", "1 1"]


def leaving() -> None:
    """A secret is shown on one page, and another page is looked at."""
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    dialogs.leave_others("api_keys")
    dialogs.hold_secret(dialogs.Secret("A key", "svc_key_x", hint=""))
    dialogs.leave_others("api_keys")
    st.text("svc_key_x" in str(vars(st.session_state["dialog.secret"])))
    dialogs.leave_others("search")
    st.text("dialog.secret" in st.session_state)


def test_a_secret_goes_with_its_page() -> None:
    """It stays while its page is looked at, and is in no state when another one is."""
    assert run(leaving).texts == ["True", "False"]
