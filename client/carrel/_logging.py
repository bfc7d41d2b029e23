"""The logger `carrel`, also by `CARREL_LOG=debug`: paths, statuses, times and request ids; no headers or bodies."""

import logging
import os
from collections.abc import Mapping

logger = logging.getLogger("carrel")

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}


def log_if_configured(environment: Mapping[str, str] = os.environ) -> None:
    """Write the log to standard error if CARREL_LOG is set; later calls do nothing."""
    if (level := LEVELS.get(environment.get("CARREL_LOG", "").strip().lower())) is None:
        return
    logger.setLevel(level)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
