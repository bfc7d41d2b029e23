"""Bulk work as Prefect flows (`python -m flows`). The import disables Prefect's usage reports, unless set before."""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
