"""The workbench's navigation; a page is a file in app/views."""

import streamlit as st

st.set_page_config(page_title="Carrel", page_icon="📚", layout="wide")

st.navigation(
    {
        "Find": [st.Page("views/search.py", title="Search", icon=":material/search:", default=True)],
        "Load": [st.Page("views/upload.py", title="Upload", icon=":material/upload_file:")],
    }
).run()
