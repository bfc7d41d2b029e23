"""The service's version, which is the project's: it is written in the SDK, once."""

from carrel._version import __version__

VERSION = __version__
