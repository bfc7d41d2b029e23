"""The part of the ledger that plans, blocks and records deletions."""

from collections.abc import Iterator, Sequence

from flows.operations.ledger import queries
from flows.operations.ledger.claimed import ClaimedLedger
from flows.operations.ledger.rows import FIRST, Missing, deletion_of, values_of
from flows.operations.ledger.states import Action, State
from flows.operations.ledger.store import Store
from flows.operations.sources.fingerprint import key_of

_PAGE = 1000


class DeletionLedger(ClaimedLedger):
    """The part of a source's ledger that tracks documents missing from the source, and their deletion."""

    def find_missing(self, *, after: bytes = FIRST, limit: int = _PAGE) -> list[tuple[bytes, Missing]]:
        """Return up to `limit` documents (with their keys) that the source has sent and this run has not found."""
        with self._store.read() as connection:
            rows = queries.find_missing(connection, self.source_id, run_id=self.run_id, after=after, limit=limit)
        return [
            (bytes(row.key), Missing(row.external_id, row.document_id, row.fingerprint, row.intended)) for row in rows
        ]

    def count_found(self) -> int:
        """Return how many documents this scan has found."""
        with self._store.read() as connection:
            return queries.count_found(connection, self.run_id, scan=self.scan)

    def count_known(self) -> int:
        """Return how many of the documents found were in the catalog before this run."""
        with self._store.read() as connection:
            return queries.count_known(connection, self.run_id)

    def found_by_others(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids the last run of another source of the same service has found.

        As far as this place of ledgers knows; at most a thousand.
        """
        by_key = {key_of(name): name for name in names}
        name = self.address.name
        with self._store.read() as connection:
            own = queries.read_source(connection, name)
        target = own.target if own else ""
        found: set[bytes] = set()
        for store in self._stores():
            try:
                with store.read() as connection:
                    found |= queries.found_by_others(connection, name=name, target=target, keys=list(by_key))
            finally:
                if store is not self._store:
                    store.close()
        return {by_key[bytes(key)] for key in found}

    def _stores(self) -> Iterator[Store]:
        """Yield where other sources' ledgers are: the same database, or the other files of the folder."""
        if self.address.shared:
            yield self._store
            return
        for path in sorted(self.address.folder.glob("*.sqlite")):
            if path != self.address.path:
                yield Store(self.address.of(path.stem))

    def named_by_problems(self, names: Sequence[str]) -> set[str]:
        """Return which of these external ids this scan has come upon as what can't be a document."""
        with self._store.read() as connection:
            return queries.problems_named(connection, self.source_id, scan=self.scan, names=names)

    def hidden_by_problems(self, codes: Sequence[str]) -> tuple[int, str]:
        """Return how many problems may hide documents (no external id, or one of `codes`), and one of their places."""
        with self._store.read() as connection:
            row = queries.problems_hiding(connection, self.source_id, scan=self.scan, codes=codes)[0]
        return row.number, row.place or ""

    def mark(self, documents: Sequence[Missing], *, state: State = State.FOUND) -> None:
        """Keep documents as what may be deleted; UNCHANGED: as what is left alone."""
        values = [
            values_of(deletion_of(one), key_of(one.external_id), run_id=self.run_id, scan=self.scan)
            | {"state": state, "action": Action.DELETE}
            for one in documents
        ]
        if values:
            with self._write() as connection:
                queries.mark(connection, values)

    def confirm_deletions(self) -> None:
        """Plan the deletion of all marked documents."""
        with self._write() as connection:
            queries.confirm(connection, self.run_id)

    def block_deletions(self, reason: str) -> None:
        """Record why deletions are blocked; marked documents stay marked and are not deleted."""
        with self._write() as connection:
            queries.update_run(connection, self.run_id, {"held_back": reason})

    def blocked_reason(self) -> str:
        """Return why deletions are blocked, or an empty text."""
        with self._store.read() as connection:
            run = queries.latest_run(connection, self.address.name)
        return run.held_back if run is not None and run.run_id == self.run_id else ""

    def forget_sent(self, external_ids: Sequence[str]) -> None:
        """Forget documents that are in the catalog no more."""
        if external_ids:
            with self._write() as connection:
                queries.forget_sent(connection, self.source_id, [key_of(name) for name in external_ids])

    def mark_deleted(self, external_id: str) -> None:
        """Record that a document was deleted."""
        key = key_of(external_id)
        with self._write() as connection:
            queries.update_document(connection, self.run_id, key, {"state": State.DELETED})
            queries.forget_sent(connection, self.source_id, [key])
            queries.release(connection, self.source_id, part=1, key=key)
