"""The version of the SDK and of the whole project, defined here only."""

__version__ = "0.5.0.dev0"
