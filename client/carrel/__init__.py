"""Carrel's client: load documents, search them by permission, administer who may read them.

>>> from carrel import Carrel
>>> client = Carrel(api_key="svc_key_…", base_url="https://carrel.example.com")
>>> client.catalog.upload_file("report.pdf", document_external_id="report-2026")
>>> client.search.search_document_catalog("travel expenses").to_frame()
"""

from carrel._calls import RawResponse
from carrel._client import AsyncCarrel, Carrel
from carrel._downloads import AsyncDownload, Download
from carrel._pages import AsyncPager, Pager
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
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    PlanRefusedError,
    RateLimitError,
    ServerError,
    UnexpectedResponseError,
    UnsupportedMediaTypeError,
)

__all__ = [
    "APIConnectionError",
    "APIError",
    "APITimeoutError",
    "AsyncCarrel",
    "AsyncDownload",
    "AsyncPager",
    "AuthenticationError",
    "BadRequestError",
    "Carrel",
    "CarrelError",
    "ConfigurationError",
    "ConflictError",
    "Download",
    "InvalidArgumentError",
    "NotFoundError",
    "Pager",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PlanRefusedError",
    "RateLimitError",
    "RawResponse",
    "ServerError",
    "UnexpectedResponseError",
    "UnsupportedMediaTypeError",
    "__version__",
]
