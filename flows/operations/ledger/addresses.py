"""The places and names of ledgers."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

_COLLECTION = "collection "


def kind_of(collection: str | None) -> str:
    return "upload" if collection is None else f"{_COLLECTION}{collection}"


def collection_of(kind: str) -> str | None:
    """Return the id of the collection that ledgers of this kind add to; None for uploads."""
    return kind.removeprefix(_COLLECTION) if kind.startswith(_COLLECTION) else None


def ledger_name(source: str, *, target: str, collection: str | None = None) -> str:
    identity = source if collection is None else f"{kind_of(collection)} {source}"
    return hashlib.sha256(f"{target}\n{identity}".encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a ledger: a file in `folder`, which also holds files for people, or a source in a database."""

    folder: Path
    name: str
    database_url: SecretStr | None = None

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.sqlite"

    @property
    def quarantine_file(self) -> Path:
        return self.folder / f"{self.name}.quarantine.jsonl"

    @property
    def shared(self) -> bool:
        return self.database_url is not None

    @property
    def exists(self) -> bool:
        return self.shared or self.path.exists()

    def places(self) -> "list[Address]":
        """Return all ledgers' addresses in a place: the database, or each file of the folder."""
        names = [self.name] if self.shared else sorted(path.stem for path in self.folder.glob("*.sqlite"))
        return [replace(self, name=name) for name in names]

    def __str__(self) -> str:
        return "in the database of CARREL_FLOWS_DATABASE_URL" if self.shared else str(self.path)
