"""The ledger: what a run has found, planned and done, by service and source. A killed run continues from there."""

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from carrel.wire.catalog import ContainedFiles
from carrel.wire.file_names import forms_of
from flows.operations.ledger.claims import ClaimedRun
from flows.operations.ledger.quarantine import of_scan, quarantine_items, release, to_failure
from flows.operations.ledger.rows import (
    FIRST,
    LAST,
    Action,
    Count,
    Digest,
    Entry,
    Failure,
    Missing,
    Sent,
    State,
    deletion_of,
    entry_of,
    failure_values,
    pack,
    problem_values,
    storable,
    values_of,
)
from flows.operations.ledger.statements import DELETES, AnyRow, Values, insert_into, keep_intents, upsert
from flows.operations.ledger.store import open_stores
from flows.operations.ledger.tables import documents, files, quarantine, runs, sent, sources
from flows.operations.sources.documents import Problem, former_fingerprint, key_of, key_range

PAGE = 1000
"""Documents per read."""
_FORBIDDEN = ("external_id_taken", "The external id belongs to a document that this user cannot update.")
_TWO = "external_id_in_two_sources"
_TWO_SOURCES = (
    "The source {} has loaded another file with this external id, and this file would replace it. Load the "
    "folder above both, or set another externalId in a manifest."
)
_NOT_IN_CATALOG = ("not_in_catalog", "This user can read no document with this external id. Upload the document first.")


class Ledger(ClaimedRun):
    """The ledger of a source: items found, planned and done by a run."""

    _position = 0

    def _in_run(self, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        return sa.and_(documents.c.run_id == self.run.run_id, *conditions)

    def _count(self, *conditions: sa.ColumnElement[bool]) -> int:
        return self._rows(sa.select(sa.func.count()).where(self._in_run(*conditions)))[0][0]

    def digests(self, names: Sequence[str]) -> dict[str, Digest]:
        """Return the digests stored by name (paths of files, addresses of objects), for at most a thousand names."""
        by_key = {key_of(name): name for name in names}
        _, *columns = files.c  # of the same source
        found = sa.select(*columns).where(files.c.source_id == self.run.source_id, files.c.key.in_(by_key))
        return {
            by_key[bytes(key)]: Digest(size, marker, bytes(sha256), taken_at_ns)
            for key, size, marker, sha256, taken_at_ns in self._rows(found)
        }

    def keep_digests(self, digests: Mapping[str, Digest]) -> None:
        if digests:
            ours = {"source_id": self.run.source_id}
            with self._writing() as connection:
                rows = [{**ours, "key": key_of(name), **asdict(digest)} for name, digest in digests.items()]
                upsert(connection, files, rows)

    def record(self, entries: Sequence[Entry]) -> list[Entry]:
        """Store a scan's entries; return entries with repeated external ids. A document already sent stays sent."""
        keys = [key_of(entry.document.external_id) for entry in entries]
        in_scan = self._in_run(documents.c.scan == self.run.scan, documents.c.key.in_(keys))
        fresh: dict[bytes, Entry] = {}
        repeated: list[Entry] = []
        with self._writing() as connection:
            known = set(connection.execute(sa.select(documents.c.key).where(in_scan)).scalars())
            for key, entry in zip(keys, entries, strict=True):
                if key in known or key in fresh:
                    repeated.append(entry)
                else:
                    fresh[key] = entry
            # Documents that an earlier version refused or ignored stay refused or ignored.
            refused = sa.select(quarantine).where(self._in_quarantine(quarantine.c.key.in_(fresh)))
            for row in connection.execute(refused):
                if row.fingerprint == _former(fresh[key := bytes(row.key)]):
                    fresh[key] = replace(fresh[key], fingerprint=row.fingerprint)
            if fresh:
                rows = [values_of(entry, key, self.run) for key, entry in fresh.items()]
                upsert(connection, documents, rows, change=_keep_done)
        # A name sent earlier in another Unicode form is the same document, and not missing.
        names = [entry.document.external_id for entry in fresh.values() if not entry.document.external_id.isascii()]
        self.forget_sent([form for name in names for form in forms_of(name) if form != name])
        return repeated

    def record_problems(self, problems: Iterable[Problem]) -> None:
        """Put the scan's problems into quarantine, in the source's order; the last problem of a place counts."""
        by_key: dict[bytes, Values] = {}
        for problem in problems:
            self._position += 1
            values = problem_values(problem, self.run, position=self._position)
            by_key[values["key"]] = values
        if by_key:
            with self._writing() as connection:
                quarantine_items(connection, list(by_key.values()))

    def forget_unseen(self) -> None:
        """Drop entries of this run's earlier scan missing in the new scan; deleted documents stay recorded."""
        unseen = self._in_run(documents.c.scan != self.run.scan, documents.c.state != "deleted")
        with self._writing() as connection:
            keep_intents(connection, self.run.source_id, unseen)
            connection.execute(sa.delete(documents).where(unseen))

    def count_found(self) -> int:

        return self._count(documents.c.scan == self.run.scan, ~DELETES)

    def count_known(self) -> int:
        """Count the run's documents that were in the catalog before: unchanged, to update, or still to be indexed."""
        asked_after = sa.and_(documents.c.state.in_(("uploaded", "indexed")), documents.c.action.is_(None))
        known = sa.or_(documents.c.state == "unchanged", documents.c.action == "update", asked_after)
        return self._count(~DELETES, known)

    def fingerprints(self, *, after: bytes = FIRST, limit: int = PAGE) -> list[tuple[bytes, str, str]]:
        """Return up to `limit` (key, external id, fingerprint) behind the key `after`, in the order of the keys."""
        found = sa.select(documents.c.key, documents.c.external_id, documents.c.fingerprint)
        found = found.where(self._in_run(documents.c.key > after, ~DELETES)).order_by(documents.c.key).limit(limit)
        return [(bytes(row.key), row.external_id, row.fingerprint) for row in self._rows(found)]

    def former_fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """Return earlier releases' fingerprints of up to a thousand documents, by external id, where they differ."""
        match = self._in_run(documents.c.key.in_([key_of(name) for name in names]))
        found = [entry_of(row) for row in self._rows(sa.select(documents).where(match))]
        return {entry.document.external_id: value for entry in found if (value := _former(entry))}

    def apply_plan(
        self,
        plan: Mapping[str, Action | State],
        *,
        document_ids: Mapping[str, str] = MappingProxyType({}),
        former: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Set up to a thousand documents to PLANNED with an action, to UNCHANGED or to FORBIDDEN. Documents in `former`
        keep an earlier version's fingerprint. Sent documents stay sent when UNCHANGED. Documents in quarantine for
        their index, with an id in `document_ids`, become UPLOADED."""
        by_verdict: dict[Action | State, list[bytes]] = {}
        for external_id, verdict in plan.items():
            by_verdict.setdefault(verdict, []).append(key_of(external_id))
        with self._writing() as connection:
            for external_id, fingerprint in former.items():
                self._update(connection, key_of(external_id), fingerprint=fingerprint)
            for verdict, keys in by_verdict.items():
                if isinstance(verdict, Action):
                    match = self._in_run(documents.c.key.in_(keys))
                    connection.execute(sa.update(documents).where(match).values(state="planned", action=verdict))
                    continue
                if verdict is State.UNCHANGED:
                    if self._doubtful:
                        self._adopt(connection, keys)
                    self._ask_after(connection, keys, document_ids)
                self._plan_rest(connection, verdict, keys)
                if verdict is State.FORBIDDEN:
                    self._quarantine(connection, keys, verdict, _FORBIDDEN)

    def _adopt(self, connection: sa.Connection, keys: Sequence[bytes]) -> None:
        """Mark pending documents as sent if the catalog already has the same version."""
        source_id = self.run.source_id
        same = sent.c.intended == documents.c.fingerprint
        intended = sa.exists().where(sent.c.source_id == source_id, sent.c.key == documents.c.key, same)
        planned = sa.and_(documents.c.action.in_(("create", "update")), documents.c.state == "found")
        columns = (documents.c.key, documents.c.external_id, documents.c.fingerprint)
        match = self._in_run(documents.c.key.in_(keys), sa.or_(planned, intended))
        arrived = sa.select(sa.literal(source_id), *columns, sa.null()).where(match)
        names = ["source_id", "key", "external_id", "fingerprint", "intended"]
        statement = insert_into(connection.dialect, sent).from_select(names, arrived)
        values = {"fingerprint": statement.excluded.fingerprint, "intended": None}
        connection.execute(statement.on_conflict_do_update(index_elements=["source_id", "key"], set_=values))

    def _ask_after(self, connection: sa.Connection, keys: Sequence[bytes], document_ids: Mapping[str, str]) -> None:
        """Set unchanged documents in quarantine for a failed index to UPLOADED."""
        found = sa.select(documents.c.key).join(quarantine, quarantine.c.key == documents.c.key)
        is_same = quarantine.c.fingerprint == documents.c.fingerprint
        same = self._in_quarantine(quarantine.c.code == "indexing_failed", is_same)
        found = found.where(self._in_run(documents.c.key.in_(keys), documents.c.state == "found"), same)
        failed = set(connection.execute(found).scalars())
        for external_id, document_id in document_ids.items() if failed else ():
            if (key := key_of(external_id)) in failed:
                self._update(connection, key, state=State.UPLOADED, action=None, document_id=document_id)

    def _in_quarantine(self, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        return sa.and_(quarantine.c.source_id == self.run.source_id, quarantine.c.part == 1, *conditions)

    def _plan_rest(self, connection: sa.Connection, state: State, keys: Sequence[bytes]) -> None:
        """Set documents that need no sending, or can't be sent, to a state; documents sent by this run stay sent."""
        match = self._in_run(documents.c.key.in_(keys), documents.c.state.not_in(("uploaded", "indexed")))
        connection.execute(sa.update(documents).where(match).values(state=state, action=None))

    def _quarantine(self, connection: sa.Connection, keys: Sequence[bytes], state: State, why: tuple[str, str]) -> None:
        """Put documents that are in a state into quarantine; `why` is the code and the message."""
        if entries := self._entries_of(connection, keys, state):
            code, message = why
            rows = [failure_values(entry, self.run, code=code, message=message) for entry in entries]
            quarantine_items(connection, rows)

    def _entries_of(self, connection: sa.Connection, keys: Sequence[bytes], state: State | None = None) -> list[Entry]:
        match = self._in_run(documents.c.key.in_(keys), sa.true() if state is None else documents.c.state == state)
        return [entry_of(row) for row in connection.execute(sa.select(documents).where(match))]

    def _update(self, connection: sa.Connection, key: bytes, **values: object) -> None:
        connection.execute(sa.update(documents).where(self._in_run(documents.c.key == key)).values(**values))

    def set_aside(self, *, refused: bool = True) -> None:
        """Skip documents unchanged since being ignored, or (`refused`) since a final refusal by the service."""
        unwanted = (State.PLANNED, State.FORBIDDEN, State.UPLOADED, State.FAILED)
        with self._writing() as connection:
            self._set_aside(connection, unwanted, quarantine.c.ignored, state="ignored")
            if refused:
                reason = sa.and_(quarantine.c.for_good, quarantine.c.ignored.is_(False))
                self._set_aside(connection, (State.PLANNED,), reason, state="failed")

    def _set_aside(
        self, connection: sa.Connection, states: Sequence[State], reason: sa.ColumnElement[bool], *, state: str
    ) -> None:
        ours = self._in_quarantine(reason)
        same = sa.and_(ours, quarantine.c.key == documents.c.key, quarantine.c.fingerprint == documents.c.fingerprint)
        waiting = self._in_run(documents.c.state.in_(states))
        seen = sa.update(quarantine).where(ours, sa.exists().where(waiting, same)).values(scan=self.run.scan)
        connection.execute(seen)
        action = sa.case((documents.c.action == "delete", documents.c.action), else_=sa.null())
        aside = sa.update(documents).where(waiting, sa.exists().where(same)).values(state=state, action=action)
        connection.execute(aside)

    def forget_plan(self) -> None:
        """Forget planned documents when none was sent: a later run need not ask about arrival."""
        planned = self._in_run(documents.c.state == "planned", ~DELETES)
        self._write(sa.update(documents).where(planned).values(state="found", action=None))

    def identify(self, document_ids: Mapping[str, str]) -> None:
        """Store document ids by external id; unknown external ids are skipped."""
        values = [{"of_key": key_of(name), "its_id": document_id} for name, document_id in document_ids.items()]
        if values:
            match = self._in_run(documents.c.key == sa.bindparam("of_key"))
            with self._writing() as connection:
                connection.execute(sa.update(documents).where(match).values(document_id=sa.bindparam("its_id")), values)

    def keep_as_it_is(self, members: Mapping[str, Mapping[str, str]], *, current: Container[str]) -> None:
        """Set FOUND documents without metadata to UNCHANGED if `current`, or else give them that of `members`."""
        with self._writing() as connection:
            entries = self._entries_of(connection, [key_of(name) for name in members], State.FOUND)
            silent = {entry.document.external_id: entry.document for entry in entries if not entry.document.metadata}
            self._plan_rest(connection, State.UNCHANGED, [key_of(name) for name in silent if name in current])
            for name, document in silent.items():
                if name not in current:
                    self._update(connection, key_of(name), payload=pack(replace(document, metadata=members[name])))

    def plan_identified(self) -> None:
        """Plan every FOUND document with an id; the others, which the caller can't read, are put into quarantine."""
        known = self._in_run(documents.c.state == "found", documents.c.document_id.is_not(None))
        self._write(sa.update(documents).where(known).values(state="planned", action="create"))
        while entries := self.page(State.FOUND):
            keys = [key_of(entry.document.external_id) for entry in entries]
            with self._writing() as connection:
                self._plan_rest(connection, State.FAILED, keys)
                self._quarantine(connection, keys, State.FAILED, _NOT_IN_CATALOG)

    def page(
        self, state: State, *, after: bytes = FIRST, last: bytes = LAST, action: Action | None = None, limit: int = PAGE
    ) -> list[Entry]:
        """Return up to `limit` documents in a state, by key, with an action or, by default, without deletions."""
        match = self._in_run(
            documents.c.state == state,
            documents.c.key > after,
            documents.c.key <= last,
            documents.c.action == action if action else ~DELETES,
        )
        return list(map(entry_of, self._rows(sa.select(documents).where(match).order_by(documents.c.key).limit(limit))))

    def walk(
        self,
        state: State,
        *,
        after: bytes = FIRST,
        last: bytes = LAST,
        action: Action | None = None,
        page_size: int = PAGE,
    ) -> Iterator[Entry]:

        while page := self.page(state, after=after, last=last, action=action, limit=page_size):
            yield from page
            after = key_of(page[-1].document.external_id)

    def pending(self, *, partition: int, partitions: int, deleting: bool = False) -> list[Entry]:
        """Return a partition's PLANNED documents by key: documents to send, or (`deleting`) to delete."""
        first, last = key_range(partition, partitions=partitions)
        after = (int.from_bytes(first, "big") - 1).to_bytes(len(first), "big") if first != FIRST else FIRST
        action = Action.DELETE if deleting else None
        return list(self.walk(State.PLANNED, after=after, last=last, action=action))

    def mark_sent(self, external_id: str, arrived: Sent) -> None:
        """Record the arrival of a document, also for later runs, and take it out of quarantine."""
        key = key_of(external_id)
        known = {"external_id": external_id, "document_id": arrived.document_id, "fingerprint": arrived.fingerprint}
        with self._writing() as connection:
            self._update(connection, key, **arrived.as_row())
            upsert(connection, sent, [{"source_id": self.run.source_id, "key": key, **known, "intended": None}])
            release(connection, self.run, key)

    def mark_searchable(self, external_id: str) -> None:
        with self._writing() as connection:
            self._update(connection, key_of(external_id), state=State.INDEXED)

    def keep_contained(self, external_id: str, found: ContainedFiles, *, parts_not_read: int) -> None:
        """Record the progress of the files in an archive or mail, and the number of unread parts."""
        values = {"contained": found.model_dump_json(), "parts_not_read": parts_not_read}
        with self._writing() as connection:
            self._update(connection, key_of(external_id), **values)

    def leave_unasked(self) -> None:
        """Leave documents in quarantine (FAILED) whose index failed in an earlier run, and was not asked about now."""
        unasked = self._in_run(documents.c.state == "uploaded", documents.c.action.is_(None))
        same = sa.exists().where(unasked, documents.c.key == quarantine.c.key)
        with self._writing() as connection:
            connection.execute(sa.update(quarantine).where(self._in_quarantine(same)).values(scan=self.run.scan))
            connection.execute(sa.update(documents).where(unasked).values(state="failed"))

    def mark_failed(self, entry: Entry, *, state: State, code: str, message: str, for_good: bool) -> None:
        """Put a document into quarantine; `for_good`: later runs skip the document until a change."""
        values = failure_values(entry, self.run, code=code, message=message)
        with self._writing() as connection:
            self._update(connection, values["key"], state=state)
            quarantine_items(connection, [{**values, "for_good": for_good}])

    def counts(self) -> list[Count]:
        """Return the run's documents by state, action, and progress of the files in each."""
        alike = (documents.c.state, documents.c.action, documents.c.contained)
        numbers = (
            sa.func.count(),
            sa.func.sum(documents.c.sent_bytes),
            sa.func.count().filter(documents.c.parts_not_read > 0),
            sa.func.sum(documents.c.pages_waiting),
        )
        found = sa.select(*alike, *numbers).where(self._in_run()).group_by(*alike)
        return [
            Count(State(state), Action(action) if action else None, number, int(size), partly, int(pages), contained)
            for state, action, contained, number, size, partly, pages in self._rows(found)
        ]

    def partly_read(self, *, limit: int | None = None) -> list[str]:
        """Return the external ids of the run's documents with unread parts, in the order of the keys."""
        found = sa.select(documents.c.external_id).where(self._in_run(documents.c.parts_not_read > 0))
        return [row.external_id for row in self._rows(found.order_by(documents.c.key).limit(limit))]

    def find_missing(self, *, after: bytes = FIRST, limit: int = PAGE) -> list[tuple[bytes, Missing]]:
        """Return up to `limit` documents (with keys) sent by the source before and not found by this run."""
        found = sa.exists().where(self._in_run(documents.c.key == sent.c.key))
        rows = sa.select(sent).where(sent.c.source_id == self.run.source_id, sent.c.key > after, ~found)
        return [
            (bytes(row.key), Missing(row.external_id, row.document_id, row.fingerprint, row.intended))
            for row in self._rows(rows.order_by(sent.c.key).limit(limit))
        ]

    def has_sent(self) -> bool:
        """Return whether any run of this source has sent a document."""
        known = sa.select(sent.c.key).where(sent.c.source_id == self.run.source_id, sent.c.fingerprint.is_not(None))
        return bool(self._rows(known.limit(1)))

    def found_by_others(self, names: Sequence[str]) -> set[str]:
        """Return the external ids (of at most a thousand) found by another source's last run in the ledger's place."""
        return {str(row.external_id) for row in self._rows_of_others(documents.c.external_id, names=names)}

    def _rows_of_others(self, *columns: Any, names: Sequence[str]) -> Iterator[AnyRow]:
        for own in self._rows(sa.select(sources).where(sources.c.name == self.address.name)) if names else ():
            others = (
                sa.select(*columns)
                .join(runs, runs.c.run_id == documents.c.run_id)
                .join(sources, sources.c.source_id == runs.c.source_id)
                .where(sources.c.name != own.name, sources.c.target == own.target, sources.c.kind == "upload")
                .where(documents.c.key.in_([key_of(name) for name in names]), ~DELETES)
            )
            for store in open_stores(self.address):
                with store.read() as connection:
                    yield from connection.execute(others).all()

    def refuse_replacing(self, names: Sequence[str]) -> set[str]:
        """Put documents that would replace another source's file into quarantine; return the external ids."""
        keys = {key_of(name): name for name in names}
        ours = sa.select(sent.c.key).where(sent.c.source_id == self.run.source_id, sent.c.key.in_(keys))
        known = {keys[bytes(key)] for (key,) in self._rows(ours)}
        is_sent = sa.exists().where(sent.c.source_id == sources.c.source_id, sent.c.key == documents.c.key)
        columns = (documents.c.external_id, documents.c.payload, sources.c.source, is_sent.label("is_sent"))
        refused: dict[str, tuple[str, str]] = {}
        for row in self._rows_of_others(*columns, names=[name for name in names if name not in known]):
            path = json.loads(row.payload)["path"]
            if row.is_sent and (Path(path).is_file() or json.loads(row.payload)["stored"]):
                refused.setdefault(row.external_id, (row.source, path))
        with self._writing() as connection:
            for entry in self._entries_of(connection, [key_of(name) for name in refused]):
                name = entry.document.external_id
                source, path = refused[name]
                if path == entry.document.path:
                    del refused[name]
                    continue
                self._plan_rest(connection, State.FORBIDDEN, [key_of(name)])
                self._quarantine(connection, [key_of(name)], State.FORBIDDEN, (_TWO, _TWO_SOURCES.format(source)))
        return set(refused)

    def named_by_problems(self, names: Sequence[str]) -> set[str]:
        """Return the external ids, of at most a thousand, that have a problem in this scan."""
        problems = of_scan(self.run, ignored=None, part=0)
        found = sa.select(quarantine.c.external_id).where(problems, quarantine.c.external_id.in_(names))
        return {str(row.external_id) for row in self._rows(found)}

    def hidden_by_problems(self, codes: Sequence[str]) -> tuple[int, str]:
        """Return how many problems may hide documents (no external id, or in `codes`), and an example's place."""
        hiding = sa.or_(quarantine.c.external_id.is_(None), quarantine.c.code.in_(codes))
        found = sa.select(sa.func.count(), sa.func.min(quarantine.c.place))
        number, place = self._rows(found.where(of_scan(self.run, ignored=None, part=0), hiding))[0]
        return number, place or ""

    def mark(self, missing: Sequence[Missing], *, state: State = State.FOUND) -> None:
        """Record missing documents as deletions in a state: FOUND until `decide_deletions`, or another to keep them."""
        if missing:
            members = {"state": state, "action": Action.DELETE}
            rows = [values_of(deletion_of(item), key_of(item.external_id), self.run) | members for item in missing]
            with self._writing() as connection:
                upsert(connection, documents, rows)

    def decide_deletions(self, state: State) -> None:
        """Set the deletions that are FOUND to a state: PLANNED, or KEPT."""
        marked = self._in_run(DELETES, documents.c.state == "found")
        self._write(sa.update(documents).where(marked).values(state=state))

    def forget_sent(self, external_ids: Sequence[str]) -> None:

        if external_ids:
            keys = [key_of(name) for name in external_ids]
            self._write(sa.delete(sent).where(sent.c.source_id == self.run.source_id, sent.c.key.in_(keys)))

    def mark_deleted(self, external_id: str) -> None:
        """Record a deletion, forget that the document was sent, and take it out of quarantine."""
        key = key_of(external_id)
        with self._writing() as connection:
            self._update(connection, key, state=State.DELETED)
            connection.execute(sa.delete(sent).where(sent.c.source_id == self.run.source_id, sent.c.key == key))
            release(connection, self.run, key)

    def problem_count(self, *, ignored: bool = False) -> int:
        """Count the source's items that can't become a document: without ignored items, or only the ignored items."""
        return self._rows(sa.select(sa.func.count()).where(of_scan(self.run, ignored=ignored, part=0)))[0][0]

    def failures(self, *, limit: int | None = None) -> Iterator[Failure]:
        """Yield the run's quarantine without ignored items: problems in the source's order, then documents by id."""
        name = sa.func.coalesce(quarantine.c.external_id, quarantine.c.place)
        order = (quarantine.c.part, quarantine.c.position, name)
        found = sa.select(quarantine).where(of_scan(self.run)).order_by(*order).limit(limit)
        with self._store.read() as connection:
            yield from map(to_failure, connection.execution_options(yield_per=PAGE).execute(found))

    def quarantined_among(self, names: Sequence[str]) -> set[str]:
        """Return which of these names are an external id or a place in the source's quarantine, of any run."""
        found: set[str] = set()
        for start in range(0, len(names), PAGE):
            by_key = {key_of(storable(name)): name for name in names[start : start + PAGE]}
            ours = (quarantine.c.source_id == self.run.source_id, quarantine.c.key.in_(by_key))
            found |= {by_key[bytes(row.key)] for row in self._rows(sa.select(quarantine.c.key).where(*ours))}
        return found

    def failure_codes(self) -> Counter[str]:
        """Count the run's quarantined items, without ignored items, by code."""
        found = sa.select(quarantine.c.code, sa.func.count()).where(of_scan(self.run)).group_by(quarantine.c.code)
        return Counter({row[0]: row[1] for row in self._rows(found)})


def _former(entry: Entry) -> str | None:
    return former_fingerprint(entry.document, sha256=entry.sha256, fingerprint=entry.fingerprint)


def _keep_done(new: Any) -> Values:
    """Keep documents as FOUND; a document sent by this run stays sent while the fingerprint is unchanged."""
    # Not as a list, because this statement is for many rows.
    done = sa.or_(documents.c.state == "uploaded", documents.c.state == "indexed")
    stays = sa.and_(documents.c.fingerprint == new.fingerprint, done)
    return {
        "document_id": sa.func.coalesce(new.document_id, documents.c.document_id),
        "state": sa.case((stays, documents.c.state), else_="found"),
        # A document planned for deletion is in the source again.
        "action": sa.case((documents.c.action == "delete", sa.null()), else_=documents.c.action),
    }
