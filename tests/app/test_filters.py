"""Fields that filter a list, and the address that keeps what they hold."""

from tests.app.pages import Page


def leaving() -> None:
    """A list is filtered and left for one of its rows; then its fields are sent once more, as a timer does."""
    import streamlit as st  # noqa: PLC0415

    from app.ui import filters  # noqa: PLC0415

    st.session_state["filter.q"] = "abc"
    filters._tell_address("q", "")
    st.text(st.query_params["q"])
    st.query_params.from_dict({"person": "1"})
    filters._tell_address("q", "")
    st.text(str(st.query_params.to_dict()))


def test_a_filter_says_a_value_to_the_address_once() -> None:
    assert Page.from_function(leaving).run().texts == ["abc", "{'person': '1'}"]
