"""All settings, read once from `CARREL_…` at the edge and passed in; listed in docs/settings.md."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from carrel.wire.agents import BUILT_IN_MODEL
from carrel.wire.fields import must
from service.platform.networks import is_confidential, is_mail_server, is_network, is_redis, overlap, parts_of

MEBIBYTE = 1024 * 1024
IN_MEMORY = "memory"


def default_data_dir() -> Path:
    """Return the user's data folder; for root /var/lib/carrel, open to PostgreSQL's own user, unlike root's home."""
    return Path("/var/lib/carrel") if os.geteuid() == 0 else platformdirs.user_data_path("carrel")


def usable_cores() -> int:
    """Return the number of usable cores, limited by affinity and by container quotas."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ceil(min([cores, *quotas(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]))


def quotas(groups: Path, mount: Path) -> Iterator[float]:
    """Yield the limits on processor time, in cores, of the process's control groups and parent groups (v1 and v2)."""
    with suppress(OSError, ValueError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            folder = mount / controllers / path.lstrip("/")
            # In a container, the group's folder may be the mount itself.
            for each in (folder, *folder.parents):
                with suppress(OSError, ValueError):
                    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
                    limit = " ".join((each / name).read_text() for name in files).split()
                    if int(limit[0]) > 0:
                        yield int(limit[0]) / int(limit[1])
                if each == mount:
                    break


# The dimensions of the index tables.
VECTOR_DIMENSIONS = (384, 768, 1024, 1536)
_BY_COMMAS = BeforeValidator(
    lambda given: tuple(part.strip() for part in given.split(",") if part.strip()) if isinstance(given, str) else given
)
Names = Annotated[tuple[str, ...], NoDecode, _BY_COMMAS]
_OWN = must(
    lambda url: "?" not in url and parts_of(url),
    "must be an http or https address without a query or fragment, such as https://carrel.example.com",
)
_BARE = AfterValidator(lambda url: url and url.rstrip("/"))
_ENDPOINT = must(parts_of, "must be an http or https address, such as https://api.example.com/v1")
_PROVIDER = must(
    lambda url: "?" not in url and is_confidential(url),
    "must be the provider's https address, without a query or fragment, such as https://login.example.com",
)
_STORE = must(
    lambda store: store.get_secret_value() == IN_MEMORY or is_redis(store.get_secret_value()),
    "must be memory, or an address such as redis://:password@host:6379/0 (rediss:// with TLS)",
)
_FILES = must(
    re.compile(r"(?is)\s*(?:file:(?://(?:localhost)?)?/(?!/).*|(?!file:)[a-z0-9]+://[^/].*)").fullmatch,
    "must be an address such as s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///srv/carrel",
)
_HOSTS = must(
    lambda hosts: all(is_network(each.strip("[]")) or not set(each) & set("/:@*") for each in hosts),
    "must be hosts, addresses or networks without scheme, port and path, such as mongo.example.com,10.0.0.0/8",
)
_PROXIES = must(
    lambda proxies: all(is_network(each, strict=True) or each == "*" for each in proxies),
    "must be addresses or networks, such as 10.0.0.7,192.168.0.0/16",
)
_MAIL_SERVER = must(
    lambda url: is_mail_server(url.get_secret_value()),
    "must be an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587",
)
_SENDER = must(
    re.compile(r"[!-?A-~]+@[!-?A-~]+").fullmatch, "must be a single mail address, such as carrel@example.com"
)


class Settings(BaseSettings):
    """The service's settings. Secrets have no defaults; the string under a field documents it."""

    model_config = SettingsConfigDict(
        env_prefix="CARREL_", frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    data_dir: Path = Field(default_factory=default_data_dir)
    """Folder of all state: database, files, model, secret key."""
    database_url: SecretStr | None = None
    """PostgreSQL with pgvector (of several servers, the primary), not the embedded server. Its user runs migrations."""
    database_replica_urls: Annotated[tuple[SecretStr, ...], NoDecode, _BY_COMMAS] = ()
    """Hot standbys of `CARREL_DATABASE_URL`'s PostgreSQL, separated by commas: each server's own address, not a load
    balancer's. Searches, passages of replies, lists and look-ups are read from standbys with all earlier commits."""
    workers: int = Field(default_factory=lambda: min(64, usable_cores()), ge=1, le=64)
    """Processes answering requests on the port; by default as many as there are usable cores. Limits on connections,
    readers, replies and syncs are divided among them."""
    database_pool_size: int = Field(default=10, ge=1, le=1000)
    """Most database connections for requests, at least two per worker. Each worker needs up to eight more for indexing
    and jobs. Each standby gets as many, plus one per worker for monitoring."""
    bootstrap_admin_email: str | None = None
    """The first admin's address, used on an empty database."""
    bootstrap_admin_password: SecretStr | None = None
    """The first admin's password."""
    bootstrap_api_key: SecretStr | None = None
    """The first admin's API key (svc_key_ and at least 32 characters), allowed to act for users."""
    public_url: Annotated[str | None, _OWN, _BARE] = None
    """The public address and OAuth issuer; sign-in needs https or this machine. By default http, host and port."""
    oidc_issuer: Annotated[str | None, _PROVIDER] = None
    """An OpenID Connect provider for sign-in, in addition to passwords."""
    oidc_client_id: str | None = None
    """The service's client id at the OpenID Connect provider."""
    oidc_client_secret: SecretStr | None = None
    """The service's client secret at the OpenID Connect provider."""
    secret_key: SecretStr | None = Field(default=None, min_length=32)
    """Key of page tokens and stored URIs, equal on every replica. By default generated and kept in the data folder."""
    new_secret_key: SecretStr | None = Field(default=None, min_length=32)
    """The new key for `python -m service rotate-key`."""
    files_url: Annotated[str | None, _FILES] = None
    """Storage of files (file:, s3:, gs:, az:); by default the data folder."""
    archive_url: Annotated[str | None, _FILES] = None
    """Archive for log and files, written continuously (file:, s3:, gs:, az:)."""
    trusted_proxies: Annotated[Names, _PROXIES] = ()
    """Proxies whose X-Forwarded-For header is trusted."""

    rate_limit_requests: int = Field(default=12_000, ge=0)
    """Requests a minute per credential before further requests get 429; 0: no limit."""
    rate_limit_failures: int = Field(default=60, ge=0)
    """Failed authentications a minute per address (for IPv6, a /64) before further failures get 429; 0: no limit. Valid
    credentials are always served. Sign-ins by a provider have a separate, equal limit before sign-ins must wait."""
    rate_limit_store: Annotated[SecretStr, _STORE] = SecretStr(IN_MEMORY)
    """Store of rate limits: `memory`, or a `redis://` or `rediss://` address; without Redis each replica counts."""

    max_connections: int | None = Field(default=None, ge=1)
    """Most concurrent connections of callers, a quarter of them from a single address, except trusted proxies and this
    machine. By default half of the files the process may open beyond the service's own, at most 10,000."""
    storage_low_bytes: int | None = Field(default=None, ge=0)
    """Free bytes below which new data is refused (507); by default an eighth of the disk, at most 1 GiB. 0: never."""
    storage_reserve_bytes: int | None = Field(default=None, ge=0)
    """Reserve for the database on a full disk; by default a sixteenth of the disk, at most 64 MiB. 0: no reserve."""
    max_upload_bytes: int = Field(default=100 * MEBIBYTE, ge=1)
    """Largest file accepted, in bytes."""
    max_json_bytes: int = Field(default=32 * MEBIBYTE, ge=1024)
    """Largest JSON body accepted, in bytes."""
    request_seconds: float = Field(default=30.0, gt=0)
    """Longest time for a single SQL statement of a request, in seconds."""

    embeddings_folder: Annotated[tuple[Path, ...], NoDecode, _BY_COMMAS] = ()
    """Folder of a model's weights, the default for new indexes; folders of earlier models follow after commas."""
    embeddings_url: str | None = None
    """An OpenAI-compatible endpoint instead of the local model."""
    embeddings_api_key: SecretStr | None = None
    """API key of the embeddings endpoint."""
    embeddings_model: str | None = None
    """Name of the model at the embeddings endpoint."""
    embeddings_dimensions: int | None = Field(default=None, ge=1, le=4000)
    """Vector length of the model at the embeddings endpoint."""
    embeddings_further_models: Annotated[Mapping[str, int], NoDecode] = {}
    """Further models of the endpoint with vector lengths, such as large=1536,old=768, to rebuild indexes to or from."""
    embeddings_precision: Literal["auto", "fp32", "int8"] = "auto"
    """Precision of the local model; auto measures the faster at the first start. Vectors of both work together."""
    inline_indexing_seconds: float = Field(default=20.0, ge=0)
    """Longest wait of an upload, in seconds: first for space in the backlog, then for its words to be indexed."""
    indexing_backlog_seconds: float = Field(default=300.0, gt=0)
    """Limit on an organization's words to index (no vectors), in seconds of work; beyond it, uploads are refused."""

    reranking_url: Annotated[str | None, _ENDPOINT] = None
    """An endpoint for reranking search results, such as https://api.example.com/v1/rerank, with the API of Cohere,
    Jina, vLLM or TEI. Queries and passages are sent to it."""
    reranking_api_key: SecretStr | None = None
    """API key of the reranking endpoint."""
    reranking_model: str | None = None
    """Name of the model at the reranking endpoint, if required."""
    reranking_seconds: float = Field(default=3.0, gt=0, le=60)
    """Longest time for reranking, in seconds; on a timeout the order of search is kept."""

    model_url: Annotated[str | None, _ENDPOINT] = None
    """An OpenAI-compatible endpoint for agents (https://api.example.com/v1); the built-in default quotes passages."""
    model_api_key: SecretStr | None = None
    """API key of the agents' model endpoint."""
    model_names: Names = ()
    """Models of the endpoint available to agents; the first is the default."""
    model_seconds: float = Field(default=120.0, gt=0)
    """Longest time for a reply, including retrieval and retries, in seconds."""
    model_history_tokens: int = Field(default=4000, ge=0)
    """Most tokens of earlier conversation shown to the model."""
    model_context_tokens: int = Field(default=100_000, ge=1000)
    """Tokens a model can read and write at once; texts are cut to fit. For Chinese and Japanese texts, set half."""
    model_without_tools: Names = ()
    """Models that can't call tools. The service searches for them before each reply, with the message."""
    agent_workers: int = Field(default=8, ge=1, le=1000)
    """Concurrent replies, at least one per worker."""

    extraction_workers: int = Field(default=2, ge=1, le=64)
    """Processes for reading files, at least one per worker."""
    extraction_seconds: float = Field(default=60.0, gt=0)
    """Most processor time for reading a file, in seconds."""
    extraction_memory_bytes: int = Field(default=1024 * MEBIBYTE, ge=64 * MEBIBYTE)
    """Most memory of a file reader, in bytes."""

    ocr: bool = True
    """Whether OCR reads scanned pages and pictures after the upload; if off, files without text are refused."""
    ocr_workers: int = Field(default=1, ge=0, le=64)
    """OCR processes, ended when idle, each on a core with 300 to 770 MiB; 0: leave OCR to other replicas."""
    ocr_pages: int = Field(default=1000, ge=1)
    """Most pages of a document read by OCR."""
    ocr_seconds: float = Field(default=120.0, gt=0)
    """Most processor time for OCR of a page, in seconds."""
    ocr_memory_bytes: int = Field(default=2048 * MEBIBYTE, ge=1024 * MEBIBYTE)
    """Most address space of an OCR process, in bytes."""

    docstore_allowed_hosts: Annotated[Names, _HOSTS] = ()
    """Hosts, addresses and networks (10.0.0.0/8) allowed for document databases in addition to public addresses."""
    docstore_connect_seconds: float = Field(default=10.0, gt=0)
    """Longest time to find and connect to a document database, in seconds."""
    docstore_query_seconds: float = Field(default=60.0, gt=0)
    """Longest time for a page of documents from a document database, in seconds."""
    docstore_overlap_seconds: float = Field(default=300.0, ge=0)
    """Overlap of sync runs, in seconds; choose more than the clock differences of the database's writers."""
    docstore_workers: int = Field(default=2, ge=0, le=100)
    """Concurrent syncs with document databases; 0: leave syncs to other replicas."""

    smtp_url: Annotated[SecretStr | None, _MAIL_SERVER] = None
    """Mail server: smtps://user:password@mail.example.com (TLS, port 465), or smtp:// (STARTTLS, port 587; without TLS
    only on this machine). Without a mail server, alerts go only to webhooks, and only admins can reset passwords."""
    mail_from: Annotated[str | None, _SENDER] = None
    """Sender address of mail."""
    webhook_allowed_hosts: Annotated[Names, _HOSTS] = ()
    """Further hosts and networks (10.0.0.0/8) allowed for webhooks, also over http, and for sign-in providers."""
    workbench_url: Annotated[str | None, _OWN, _BARE] = None
    """The workbench's address, for links in invitations, alerts and pages, and for sign-in without consent."""

    text_retention_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days until the words of queries, comments and conversations are deleted; kept forever by default."""

    trash_days: int = Field(default=7, ge=0, le=36_500)
    """How many days a deleted document or group can be restored; 0: it is deleted for good at once."""
    file_grace_hours: float = Field(default=24.0, ge=0, le=87_600)
    """Hours until an unreferenced file is deleted; 0: delete when found."""

    sweep_seconds: float = Field(default=10.0, gt=0)
    """Seconds between searches for work left by a crash."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The lowest level to log."""

    @property
    def files_dir(self) -> Path:
        """The folder of files unless `files_url` is set."""
        return self.data_dir / "files"

    @property
    def uploads_dir(self) -> Path:
        """The folder for files being uploaded, each deleted at the end of its request."""
        return self.data_dir / "uploads"

    @property
    def issuer(self) -> str:
        """The public address of the service, without a trailing slash (RFC 8414, section 2)."""
        if self.public_url is not None:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - read, not listened on
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def agent_models(self) -> tuple[str, ...]:
        """The models available to agents, the default first: those of the endpoint, then the built-in model."""
        return tuple(dict.fromkeys((*self.model_names, BUILT_IN_MODEL)))

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        others = {"CARREL_DATA_DIR": self.data_dir.resolve().as_uri(), "CARREL_FILES_URL": self.files_url}
        for name, url in others.items():
            if self.archive_url is not None and url is not None and overlap(self.archive_url, url):
                raise ValueError(
                    f"CARREL_ARCHIVE_URL must be a separate place: not that of {name}, nor inside it or around it"
                )
        given = {self.oidc_issuer is None, self.oidc_client_id is None, self.oidc_client_secret is None}
        if len(given) > 1:
            msg = "set CARREL_OIDC_ISSUER, CARREL_OIDC_CLIENT_ID and CARREL_OIDC_CLIENT_SECRET, or none of them"
            raise ValueError(msg)
        if (self.model_url is None) != (not self.model_names):
            raise ValueError("set both CARREL_MODEL_URL and CARREL_MODEL_NAMES, or neither")
        if not {*self.model_without_tools} <= {*self.model_names}:
            raise ValueError("CARREL_MODEL_WITHOUT_TOOLS may only have names from CARREL_MODEL_NAMES")
        if (self.smtp_url is None) != (self.mail_from is None):
            raise ValueError("set both CARREL_SMTP_URL and CARREL_MAIL_FROM, or neither")
        return self

    @field_validator("embeddings_further_models", mode="before")
    @classmethod
    def _parse_pairs(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.strip().rpartition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and length.strip().isdecimal() for name, _, length in pairs):
            raise ValueError("must be names and lengths, such as large=1536,old=768")
        return {name.strip(): int(length) for name, _, length in pairs}
