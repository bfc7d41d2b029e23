"""The models that agents may be given, by name."""

from carrel.wire.agents import BUILT_IN_MODEL
from service.platform.settings import Settings

BUILT_IN = BUILT_IN_MODEL
"""Quotes the passages that answer; needs neither key nor network, and is there in every deployment."""


def model_names(settings: Settings) -> tuple[str, ...]:
    """Return the models there are, the default first: the configured endpoint's, then the built-in one."""
    return tuple(dict.fromkeys((*settings.model_names, BUILT_IN)))
