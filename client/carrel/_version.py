"""The version of the SDK and of the whole project: the one place where it is written."""

__version__ = "0.4.0.dev0"
