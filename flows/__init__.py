"""Bulk work on a Carrel service, as Prefect flows; `python -m flows` runs them. Prefect reports its use to its makers
unless told otherwise when it is first imported: importing this package declines that; an explicit setting stands."""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
