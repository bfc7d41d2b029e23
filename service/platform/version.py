"""The service's version: the project's, defined once in the SDK."""

from carrel._version import __version__

VERSION = __version__
