"""Bulk work on a Carrel service, as Prefect flows; `python -m flows` runs them. Importing this package disables
Prefect's usage reports, which Prefect enables by default; an explicit setting stands."""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
