"""Where a ledger is."""

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ledger is: `name` of a file in `folder`, or of a source in the database at `database_url`.

    `folder` is this machine's in either case: what a run writes for people goes there.
    """

    folder: Path
    name: str
    database_url: SecretStr | None = None

    @property
    def path(self) -> Path:
        """The ledger's file, where it is one."""
        return self.folder / f"{self.name}.sqlite"

    @property
    def shared(self) -> bool:
        """Whether the ledger is in a database."""
        return self.database_url is not None

    def of(self, name: str) -> "Address":
        """Return the address of another ledger in the same place."""
        return replace(self, name=name)

    def __str__(self) -> str:
        return "in the database that CARREL_FLOWS_DATABASE_URL names" if self.shared else str(self.path)
