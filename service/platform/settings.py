"""Everything configurable, read once from `CARREL_…` at the edge and passed in; docs/settings.md lists it."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.platform.networks import is_confidential, is_mail_server, is_redis, overlap, parts_of

MEBIBYTE = 1024 * 1024
IN_MEMORY = "memory"


def default_data_dir() -> Path:
    """Return the user's data folder; /var/lib/carrel for root, whose home PostgreSQL's own user can't enter."""
    return Path("/var/lib/carrel") if os.geteuid() == 0 else platformdirs.user_data_path("carrel")


def usable_cores() -> int:
    """Return the number of cores that this process may use: by its affinity, and by the quotas of its containers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ceil(min([cores, *quotas(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]))


def quotas(groups: Path, mount: Path) -> Iterator[float]:
    """Yield the limits on processor time, in cores, of this process's control groups and those above (v1 and v2)."""
    with suppress(OSError, ValueError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            folder = mount / controllers / path.lstrip("/")
            # In a container, the folder of its group may be the mount itself.
            for each in (folder, *folder.parents):
                with suppress(OSError, ValueError):
                    limit = (each / "cpu.max").read_text().split() if not controllers else _read_v1(each)
                    if int(limit[0]) > 0:
                        yield int(limit[0]) / int(limit[1])
                if each == mount:
                    break


def _read_v1(folder: Path) -> list[str]:
    return [(folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]


# The lengths of vectors that there are index tables for.
VECTOR_DIMENSIONS = (384, 768, 1024, 1536)


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
    """PostgreSQL with pgvector (of several, the primary), not the embedded one; its user migrates."""
    database_replica_urls: Annotated[tuple[SecretStr, ...], NoDecode] = ()
    """Hot standbys of that PostgreSQL, each server's own address (no load balancer's), separated by commas; searches,
    the passages of replies, lists and look-ups are read from those that have replayed all that was committed before."""
    workers: int = Field(default_factory=lambda: min(64, usable_cores()), ge=1, le=64)
    """Processes that answer requests on the one port; by default as many as there are cores to use. What is said here
    of connections, readers, replies and syncs is divided among them."""
    database_pool_size: int = Field(default=10, ge=1, le=1000)
    """Most database connections of requests, at least two of each worker; up to eight more of each are its indexing's
    and its jobs'. As many go to each standby, and one of each worker that looks after it."""
    bootstrap_admin_email: str | None = None
    """On an empty database: the first admin's address."""
    bootstrap_admin_password: SecretStr | None = None
    """The first admin's password."""
    bootstrap_api_key: SecretStr | None = None
    """The first admin's API key (svc_key_ and at least 32 characters), which may act for users."""
    public_url: str | None = None
    """The address callers use; the OAuth issuer. People sign in over https alone, or on this machine. By default http,
    host and port."""
    oidc_issuer: str | None = None
    """An OpenID Connect provider that people can sign in with, beside their password here."""
    oidc_client_id: str | None = None
    """What that provider knows the service by."""
    oidc_client_secret: SecretStr | None = None
    """The secret that goes with it."""
    secret_key: SecretStr | None = Field(default=None, min_length=32)
    """Key of page tokens and stored URIs, at least 32 characters, the same on every replica; made and kept in the data
    folder when absent."""
    new_secret_key: SecretStr | None = Field(default=None, min_length=32)
    """The key that `python -m service rotate-key` changes to."""
    files_url: str | None = None
    """Where files lie (file:, s3:, gs:, az:); by default the data folder."""
    archive_url: str | None = None
    """Where log and files are archived as they are written (file:, s3:, gs:, az:)."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses whose X-Forwarded-For is believed."""

    rate_limit_requests: int = Field(default=12_000, ge=0)
    """Requests a minute of one credential before it is answered 429; 0: no limit."""
    rate_limit_failures: int = Field(default=60, ge=0)
    """Failed authentications a minute of one address (of IPv6, a /64) before they are answered 429; 0: no limit. Valid
    credentials are served in any case. Sign-ins by a provider have the same limit, apart: after so many were refused,
    further ones wait."""
    rate_limit_store: SecretStr = SecretStr(IN_MEMORY)
    """Where that is counted: `memory` (the default), or a `redis://` or `rediss://` address that replicas share. While
    it is away, each replica counts for itself."""

    max_connections: int | None = Field(default=None, ge=1)
    """Most connections of callers at a time, a quarter of them from one address that is neither a trusted proxy nor
    this machine; by default half of the files that the process may have open beyond the service's own, at most
    10,000."""
    storage_low_bytes: int | None = Field(default=None, ge=0)
    """Free space of a disk, in bytes, below which nothing more is taken in (507) while reading goes on; by default an
    eighth of the disk, 1 GiB at most. 0: never refuse."""
    storage_reserve_bytes: int | None = Field(default=None, ge=0)
    """Size of the file beside the embedded database that is given up to keep it running on a full disk; by default a
    sixteenth of the disk, 64 MiB at most. 0: none."""
    max_upload_bytes: int = Field(default=100 * MEBIBYTE, ge=1)
    """Largest file taken, in bytes."""
    max_json_bytes: int = Field(default=32 * MEBIBYTE, ge=1024)
    """Largest JSON body taken, in bytes."""
    request_seconds: float = Field(default=30.0, gt=0)
    """Longest a single SQL statement of a request may take."""

    embeddings_folder: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folder of a model's weights; that model is the default for new indexes. Folders of earlier models follow after
    commas."""
    embeddings_url: str | None = None
    """An OpenAI-compatible endpoint instead of the local model."""
    embeddings_api_key: SecretStr | None = None
    """The key for that endpoint."""
    embeddings_model: str | None = None
    """The model's name at that endpoint."""
    embeddings_dimensions: int | None = Field(default=None, ge=1, le=4000)
    """The length of its vectors."""
    embeddings_further_models: Annotated[Mapping[str, int], NoDecode] = {}
    """Further models of that endpoint and the lengths of their vectors, such as large=1536,old=768: what indexes are
    rebuilt to, or from."""
    embeddings_precision: Literal["auto", "fp32", "int8"] = "auto"
    """Arithmetic of the local model. auto: the faster one, measured at the first start with this processor. Vectors of
    both can be searched together."""
    inline_indexing_seconds: float = Field(default=20.0, ge=0)
    """How long an upload waits for room in the backlog, and then for its words to be indexed."""
    indexing_backlog_seconds: float = Field(default=300.0, gt=0)
    """How much of one organization may wait for its words to be indexed, in seconds of work at the pace it gets; more
    is refused for a while. Vectors that wait are not counted."""

    reranking_url: str | None = None
    """An endpoint that reranks what a search found, such as https://api.example.com/v1/rerank, in the shape of Cohere,
    Jina, vLLM or TEI; queries and passages are sent there."""
    reranking_api_key: SecretStr | None = None
    """The key for that endpoint."""
    reranking_model: str | None = None
    """The model's name there, if it takes one."""
    reranking_seconds: float = Field(default=3.0, gt=0, le=60)
    """Longest that reranking may take; after it the order of search stands."""

    model_url: str | None = None
    """An OpenAI-compatible endpoint whose models answer for agents, such as https://api.example.com/v1; without it the
    built-in model answers, which quotes passages and needs neither key nor network."""
    model_api_key: SecretStr | None = None
    """The key for that endpoint."""
    model_names: Annotated[tuple[str, ...], NoDecode] = ()
    """The models of that endpoint that agents may be given; the first is the default."""
    model_seconds: float = Field(default=120.0, gt=0)
    """Longest a reply may take, retrieval and retries included."""
    model_history_tokens: int = Field(default=4000, ge=0)
    """How much of a conversation the model is shown again, in tokens."""
    agent_workers: int = Field(default=8, ge=1, le=1000)
    """Replies that are made at a time, at least one by each worker."""

    extraction_workers: int = Field(default=2, ge=1, le=64)
    """Processes that read files, at least one of each worker."""
    extraction_seconds: float = Field(default=60.0, gt=0)
    """Most processor time that reading one file may take."""
    extraction_memory_bytes: int = Field(default=1024 * MEBIBYTE, ge=64 * MEBIBYTE)
    """Most memory of one reader."""

    ocr: bool = True
    """Whether the text of scanned pages and pictures is read by machine (OCR), after their upload. Without it files
    that have no other text are refused."""
    ocr_workers: int = Field(default=1, ge=0, le=64)
    """Processes that read pages, each on one core behind all other work, with 300 to 770 MiB; they end when nothing
    waits. 0: pages are left to other replicas."""
    ocr_pages: int = Field(default=1000, ge=1)
    """Most pages of one document that are read by machine."""
    ocr_seconds: float = Field(default=120.0, gt=0)
    """Most processor time that reading one page by machine may take."""
    ocr_memory_bytes: int = Field(default=2048 * MEBIBYTE, ge=1024 * MEBIBYTE)
    """Most address space of a process that reads pages."""

    docstore_allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts, addresses and networks (10.0.0.0/8) that syncs with document databases may connect to though they are not
    public."""
    docstore_connect_seconds: float = Field(default=10.0, gt=0)
    """Longest that a document database may take to be found and connected to."""
    docstore_query_seconds: float = Field(default=60.0, gt=0)
    """Longest that a document database may take for one page of documents."""
    docstore_overlap_seconds: float = Field(default=300.0, ge=0)
    """How far before the latest change it saw the next run of a sync looks for changes again: more than the clocks of
    who writes there differ."""
    docstore_workers: int = Field(default=2, ge=0, le=100)
    """Syncs with document databases that run at a time; 0: they are left to other replicas."""

    smtp_url: SecretStr | None = None
    """The server that mail is sent by: smtps://user:password@mail.example.com (TLS, port 465), or smtp:// (STARTTLS,
    port 587; without TLS on this machine alone). Without it, alerts go to webhooks alone; admins reset passwords."""
    mail_from: str | None = None
    """The address that mail is sent from."""
    webhook_allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts, addresses and networks (10.0.0.0/8) that webhooks may be sent to, and sign-in providers asked at, though
    they are not public; webhooks by http, too."""
    workbench_url: str | None = None
    """The workbench's address, to which invitations lead, and alerts and pages link. People are not asked whether they
    allow it; without it there are no links."""

    text_retention_days: int | None = Field(default=None, ge=1, le=36_500)
    """How many days the words of queries, comments and conversations are kept; for ever when absent."""

    file_grace_hours: float = Field(default=24.0, ge=0, le=87_600)
    """How many hours a file is kept that no document refers to any more; 0: it is removed when found."""

    sweep_seconds: float = Field(default=10.0, gt=0)
    """How often work that a crash left is looked for."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least level logged."""

    @property
    def files_dir(self) -> Path:
        """Where files lie unless `files_url` says otherwise."""
        return self.data_dir / "files"

    @property
    def uploads_dir(self) -> Path:
        """Where files lie on their way in, each gone with its request."""
        return self.data_dir / "uploads"

    @property
    def issuer(self) -> str:
        """The address that callers know the service by, without a slash at its end (RFC 8414, section 2)."""
        if self.public_url is not None:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - read, not listened on
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        others = {"CARREL_DATA_DIR": self.data_dir.resolve().as_uri(), "CARREL_FILES_URL": self.files_url}
        for name, url in others.items():
            if self.archive_url is not None and url is not None and overlap(self.archive_url, url):
                raise ValueError(
                    f"CARREL_ARCHIVE_URL must be a place of its own, neither that of {name}, nor within it or around it"
                )
        given = {self.oidc_issuer is None, self.oidc_client_id is None, self.oidc_client_secret is None}
        if len(given) > 1:
            msg = "set CARREL_OIDC_ISSUER, CARREL_OIDC_CLIENT_ID and CARREL_OIDC_CLIENT_SECRET, or none of them"
            raise ValueError(msg)
        if (self.model_url is None) != (not self.model_names):
            raise ValueError("set both CARREL_MODEL_URL and CARREL_MODEL_NAMES, or neither")
        if (self.smtp_url is None) != (self.mail_from is None):
            raise ValueError("set both CARREL_SMTP_URL and CARREL_MAIL_FROM, or neither")
        return self

    @field_validator("smtp_url")
    @classmethod
    def _check_mail_server(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not is_mail_server(value.get_secret_value()):
            msg = "must be an address such as smtps://user:password@mail.example.com or smtp://mail.example.com:587"
            raise ValueError(msg)
        return value

    @field_validator("mail_from")
    @classmethod
    def _check_sender(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[!-?A-~]+@[!-?A-~]+", value):
            raise ValueError("must be one mail address, such as carrel@example.com")
        return value

    @field_validator("public_url", "workbench_url")
    @classmethod
    def _own_address(cls, value: str | None) -> str | None:
        if value is not None and (parts_of(value) is None or "?" in value):
            msg = "must be an http or https address without a query or fragment, such as https://carrel.example.com"
            raise ValueError(msg)
        return None if value is None else value.rstrip("/")

    @field_validator("model_url", "reranking_url")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        if value is not None and parts_of(value) is None:
            raise ValueError("must be an http or https address, such as https://api.example.com/v1")
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _provider(cls, value: str | None) -> str | None:
        if value is not None and ("?" in value or not is_confidential(value)):
            msg = "must be the provider's https address, without a query or fragment, such as https://login.example.com"
            raise ValueError(msg)
        return value

    @field_validator("rate_limit_store")
    @classmethod
    def _check_store(cls, value: SecretStr) -> SecretStr:
        if (url := value.get_secret_value()) != IN_MEMORY and not is_redis(url):
            raise ValueError("must be memory, or an address such as redis://:password@host:6379/0 (rediss:// with TLS)")
        return value

    @field_validator("embeddings_further_models", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.strip().rpartition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and length.strip().isdecimal() for name, _, length in pairs):
            raise ValueError("must be names and lengths, such as large=1536,old=768")
        return {name.strip(): int(length) for name, _, length in pairs}

    @field_validator(
        "database_replica_urls",
        "embeddings_folder",
        "trusted_proxies",
        "model_names",
        "docstore_allowed_hosts",
        "webhook_allowed_hosts",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
