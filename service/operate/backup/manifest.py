"""The manifest, an archive's last member: when it is there, everything before it was written."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Described(BaseModel):
    """A part of a description that is written once, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Contents(Described):
    """The contents of an archive; reading must find the same. A file is named by its SHA-256; `files_sha256` is of all
    names in order. `secret_key_sha256` is None if the key wasn't in the data folder."""

    files: Count = 0
    file_bytes: Count = 0
    files_sha256: Sha256
    database_bytes: Count = 0
    database_sha256: Sha256
    secret_key_sha256: Sha256 | None = None


class Manifest(Described):
    """The last member: `rows` of each table, and the database's `key_fingerprint` in hexadecimal (None: never set)."""

    format: Literal[1] = FORMAT
    created_at: datetime
    schema_revision: Annotated[str, Field(pattern=r"^[0-9]{4}$")]
    postgresql: Count
    key_fingerprint: Sha256 | None
    rows: dict[str, Count]
    contents: Contents
