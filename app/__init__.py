"""The workbench: Streamlit pages over the SDK."""
