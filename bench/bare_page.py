"""The least that a page takes here: a table of fifty rows that is at hand, and a button that shows the next fifty.

`bench.app` compares the workbench's pages with it: the rest is what Streamlit and the browser take on this machine.
"""

import streamlit as st

ROWS = 50


def go_on() -> None:
    """Be at the next page."""
    st.session_state["page"] = st.session_state.get("page", 1) + 1


page: int = st.session_state.get("page", 1)
first = page * ROWS
st.dataframe(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
    [
        {"Name": f"Document {number:06}", "State": "Searchable", "Kind": "Text", "Changed": "1 hour ago"}
        for number in range(first, first + ROWS)
    ],
    key=f"rows.{page}",
    hide_index=True,
    on_select="rerun",
    selection_mode="single-row",
)
st.button("Next", on_click=go_on)
st.caption(f"Page {page}")
