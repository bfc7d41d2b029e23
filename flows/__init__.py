"""Bulk work on a Carrel service, as Prefect flows; `python -m flows` runs them.

Prefect reports its use to hosts of its makers unless told otherwise when it is first imported. Nothing here asks for
that, so importing this package declines it before any module of it can import Prefect; an explicit setting stands.
"""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
