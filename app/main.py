"""The workbench's navigation; a page is a file in app/views."""

import streamlit as st

from app.ui.style import STYLE

st.set_page_config(page_title="Carrel", page_icon="📚", layout="wide")
st.html(STYLE)

st.navigation(
    [
        st.Page("views/search.py", title="Search", icon=":material/search:", default=True),
        st.Page("views/upload.py", title="Upload", icon=":material/upload_file:"),
    ],
    position="top",
).run()
