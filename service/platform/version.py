"""The service's version, as pyproject.toml states it."""

VERSION = "0.1.0"
