"""The models available to agents, by name."""

from carrel.wire.agents import BUILT_IN_MODEL
from service.platform.settings import Settings

BUILT_IN = BUILT_IN_MODEL
"""Quotes relevant passages; needs neither key nor network, and exists in every deployment."""


def model_names(settings: Settings) -> tuple[str, ...]:
    """Return the available models, the default first: the configured endpoint's, then the built-in model."""
    return tuple(dict.fromkeys((*settings.model_names, BUILT_IN)))
