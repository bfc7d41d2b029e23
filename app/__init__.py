"""The workbench: Streamlit pages over the SDK."""

import logging

# Modules with cached functions are imported before Streamlit's runtime is there, and it would warn of each.
logging.getLogger("streamlit.runtime.caching.cache_data_api").addFilter(lambda record: "No runtime" not in record.msg)
