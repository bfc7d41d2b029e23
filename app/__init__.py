"""The workbench: Streamlit pages over the SDK."""

import logging

# Modules with cached functions are imported before Streamlit's runtime exists, and Streamlit would warn about each.
logging.getLogger("streamlit.runtime.caching.cache_data_api").addFilter(lambda record: "No runtime" not in record.msg)
