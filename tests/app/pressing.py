"""Pressing buttons as a browser does, in dialogs too."""

from typing import Any

from streamlit.testing.v1 import AppTest

from tests.app.conftest import html_of


def button(page: AppTest, label: str) -> Any:
    """The one button of this label."""
    found = [one for one in page.button if one.label == label]
    assert len(found) == 1, (label, [one.label for one in page.button], html_of(page))
    return found[0]


def press(page: AppTest, label: str) -> AppTest:
    """Press the button of this label."""
    page = button(page, label).click().run()
    assert not page.exception
    return page


def press_twice(page: AppTest, label: str) -> AppTest:
    """Press a button twice, the second time before the browser shows where the first has led."""
    button(page, label).click()
    sent, address = page._tree.get_widget_states(), dict(page.query_params)
    for state in [one for one in sent.widgets if one.WhichOneof("value") == "trigger_value" and not one.trigger_value]:
        sent.widgets.remove(state)  # of the buttons that nobody presses, a browser says nothing
    page.run()
    page.query_params.clear()
    page.query_params.update(address)
    page._run(sent)
    assert not page.exception
    return page


def answer(page: AppTest, opener: str, label: str) -> AppTest:
    """Press a button in the dialog that `opener` has opened.

    In a browser that draws the dialog alone, which stays open; here the whole page is drawn, so it is opened again.
    """
    button(page, label).click()
    return press(page, opener)
