"""Errors in words: what went wrong, what to do, and the request id to quote."""

from collections.abc import Generator
from contextlib import contextmanager

import streamlit as st

import carrel
from app.settings import settings


@contextmanager
def explained() -> Generator[None]:
    """Show an error of the service or of the way to it in place of what failed, and end the page's run there."""
    try:
        yield
    except carrel.AuthenticationError:
        st.error("The service doesn't accept the workbench's API key. Set CARREL_API_KEY to a valid one and restart.")
    except carrel.APIConnectionError:
        st.error(
            f"The service at {settings().base_url} doesn't answer. Start it with `make up`, then reload this page."
        )
    except carrel.APIError as error:
        reference = f"\n\nRequest id: `{error.request_id}`" if error.request_id else ""
        st.error(f"{escaped(error.message)}{reference}")
    else:
        return
    st.stop()


def escaped(text: str) -> str:
    """Return text that Streamlit's Markdown shows as it is, whatever it holds."""
    return "".join(f"\\{char}" if char in r"\`*_{}[]()<>#+-.!|$:~&" else char for char in text)
