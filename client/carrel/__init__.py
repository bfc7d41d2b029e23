"""Carrel's client: load documents, search them by permission, ask agents about them, administer who may read them.

>>> from carrel import Carrel
>>> client = Carrel(api_key="svc_key_…", base_url="https://carrel.example.com")
>>> client.catalog.upload_file("report.pdf", document_external_id="report-2026")
>>> client.search.search_document_catalog("travel expenses").to_frame()"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from carrel._version import __version__

if TYPE_CHECKING:
    from carrel._calls import RawResponse
    from carrel._client import AsyncCarrel, Carrel
    from carrel._credentials import TokenSource
    from carrel._downloads import AsyncDownload, Download
    from carrel._pages import AsyncPager, AsyncStream, Pager, Stream
    from carrel._replies import Reply, Restarted
    from carrel.errors import (
        APIConnectionError,
        APIError,
        APITimeoutError,
        AuthenticationError,
        BadRequestError,
        CarrelError,
        ConfigurationError,
        ConflictError,
        EditConflictError,
        InsufficientStorageError,
        InvalidArgumentError,
        NotFoundError,
        OAuthError,
        PayloadTooLargeError,
        PermissionDeniedError,
        PlanRefusedError,
        RateLimitError,
        ReplyConnectionError,
        ReplyError,
        ReplyFailedError,
        ReplyTimeoutError,
        ReplyWithheldError,
        ServerError,
        SignInRequiredError,
        UnexpectedResponseError,
        UnsupportedMediaTypeError,
    )
    from carrel.oauth.interactive import sign_in, sign_out
    from carrel.wire.replies import TextDelta

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AsyncCarrel",
    "AsyncDownload",
    "AsyncPager",
    "AsyncStream",
    "AuthenticationError",
    "BadRequestError",
    "Carrel",
    "CarrelError",
    "ConfigurationError",
    "ConflictError",
    "Download",
    "EditConflictError",
    "InsufficientStorageError",
    "InvalidArgumentError",
    "NotFoundError",
    "OAuthError",
    "Pager",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PlanRefusedError",
    "RateLimitError",
    "RawResponse",
    "Reply",
    "ReplyConnectionError",
    "ReplyError",
    "ReplyFailedError",
    "ReplyTimeoutError",
    "ReplyWithheldError",
    "Restarted",
    "ServerError",
    "SignInRequiredError",
    "Stream",
    "TextDelta",
    "TokenSource",
    "UnexpectedResponseError",
    "UnsupportedMediaTypeError",
    "__version__",
    "sign_in",
    "sign_out",
]

# Modules of the public names that are not errors.
_MODULES = {
    "_calls": ("RawResponse",),
    "_client": ("AsyncCarrel", "Carrel"),
    "_credentials": ("TokenSource",),
    "_downloads": ("AsyncDownload", "Download"),
    "_pages": ("AsyncPager", "AsyncStream", "Pager", "Stream"),
    "_replies": ("Reply", "Restarted"),
    "oauth.interactive": ("sign_in", "sign_out"),
    "wire.replies": ("TextDelta",),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name on first use, so that programs that need only the wire models don't load the client."""
        if name == "ChangedMeanwhileError":
            return import_module(f"{__name__}.errors").warn_of_former_name()
        if name in __all__:
            module = next((module for module, names in _MODULES.items() if name in names), "errors")
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
        if not name.startswith("_"):
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                # If the module exists but its own import fails, raise that error.
                if error.name != f"{__name__}.{name}":
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return __all__
