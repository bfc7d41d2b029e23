"""Carrel's client: load documents, search them by permission, ask agents about them, administer who may read them.

>>> from carrel import Carrel
>>> client = Carrel(api_key="svc_key_…", base_url="https://carrel.example.com")
>>> client.catalog.upload_file("report.pdf", document_external_id="report-2026")
>>> client.search.search_document_catalog("travel expenses").to_frame()
"""

from carrel._calls import RawResponse
from carrel._client import AsyncCarrel, Carrel
from carrel._downloads import AsyncDownload, Download
from carrel._pages import AsyncPager, Pager
from carrel._replies import Reply
from carrel._reply_streams import Restarted
from carrel._streams import AsyncStream, Stream
from carrel._tokens import TokenSource
from carrel._version import __version__
from carrel.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    CarrelError,
    ConfigurationError,
    ConflictError,
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
from carrel.wire.conversations import TextDelta

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
]
