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


def answer(page: AppTest, opener: str, label: str) -> AppTest:
    """Press a button in the dialog that `opener` has opened.

    In a browser that draws the dialog alone, which stays open; here the whole page is drawn, so it is opened again.
    """
    button(page, label).click()
    return press(page, opener)
