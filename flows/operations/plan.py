"""The second step of a run: ask the service about the effect of sending each document, before sending any."""

import asyncio
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from carrel import AsyncCarrel
from carrel.wire.formats import UNREAD_SUFFIXES
from carrel.wire.uploads import PlanAction, PlannedUpload, UploadPlan
from flows.operations.formatting import count_text
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import FIRST, Action, State
from flows.operations.outages import OutagePolicy
from flows.operations.sending import run_workers

_BATCH = 1000  # the most that planUpload takes
_ASKED_AT_ONCE = 2

_VERDICTS: Mapping[PlanAction, Action | State] = {
    PlanAction.CREATE: Action.CREATE,
    PlanAction.UPDATE: Action.UPDATE,
    PlanAction.UNCHANGED: State.UNCHANGED,
    PlanAction.FORBIDDEN: State.FORBIDDEN,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of documents by kind. `resumed` were sent by this run before an interruption; `left` were changed
    elsewhere or have another source; `gone` stay because deletion is off; `unread`, by suffix, are sent unread."""

    create: int
    update: int
    unchanged: int
    forbidden: int
    refused: int
    resumed: int
    ignored: int = 0
    delete: int = 0
    left: int = 0
    gone: int = 0
    left_out: int = 0
    held_back: str = ""
    unread: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def sends(self) -> int:
        return self.create + self.update

    def numbers(self) -> dict[str, int]:
        """Return the number of documents of each kind, by its words for people."""
        return {
            "to create": self.create,
            "to update": self.update,
            "unchanged": self.unchanged,
            "forbidden": self.forbidden,
            "refused before and unchanged": self.refused,
            "already sent by this run": self.resumed,
            "ignored": self.ignored,
            "to delete": self.delete,
            "gone from the source, kept": self.gone,
            "gone from the source, but changed by others or in another source, kept": self.left,
            "sent before and now skipped, kept": self.left_out,
        }

    def text(self) -> str:
        """Return the first four numbers, the others unless zero, and why deletions are held back, in a line."""
        kinds = enumerate(self.numbers().items())
        text = ", ".join(f"{number} {words}" for place, (words, number) in kinds if number or place < 4)
        return f"{text}. {self.held_back}" if self.held_back else text

    def unread_text(self) -> str:
        """Describe, for people, how many documents the service will refuse because of names."""
        kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in Counter(self.unread).most_common())
        will = count_text(sum(self.unread.values()), "document is", "documents are")
        return f"{will} in formats that cannot be read ({kinds}), and will be refused"


async def make_plan(
    client: AsyncCarrel,
    ledger: Ledger,
    *,
    outages: OutagePolicy,
    upload_as: str | None = None,
    retry_refused: bool = False,
    shared: list[str],
) -> Plan:
    """Ask planUpload about every document of the ledger, a thousand at a time; store the answers, and return the plan.
    Add to `shared` the unchanged documents without readers in the source but with readers beyond the owner."""
    after, turn = FIRST, asyncio.Lock()

    async def read_page() -> list[tuple[bytes, str, str]]:
        nonlocal after
        async with turn:
            if page := await asyncio.to_thread(ledger.fingerprints, after=after, limit=_BATCH):
                after = page[-1][0]
            return page

    async def ask(fingerprints: Mapping[str, str]) -> list[UploadPlan]:
        documents = [PlannedUpload(document_external_id=name, fingerprint=fingerprints[name]) for name in fingerprints]
        asked = partial(client.catalog.plan_upload, documents=documents, upload_as_user_email=upload_as)
        return (await outages.call(asked)).documents if documents else []

    async def work() -> None:
        while page := await read_page():
            answers = await ask({name: value for _, name, value in page})
            verdicts = {answer.document_external_id: _VERDICTS[answer.action] for answer in answers}
            ids = {answer.document_external_id: str(answer.document_id) for answer in answers if answer.document_id}
            same = [one.document_external_id for one in answers if one.shared and one.action is PlanAction.UNCHANGED]
            shared.extend(await asyncio.to_thread(ledger.former_fingerprints, same))
            changed = [name for name, verdict in verdicts.items() if verdict is Action.UPDATE]
            former = await asyncio.to_thread(ledger.former_fingerprints, changed)
            again = {plan.document_external_id for plan in await ask(former) if plan.action is PlanAction.UNCHANGED}
            verdicts |= dict.fromkeys(again, State.UNCHANGED)
            changed = [name for name in changed if name not in again]
            for name in await asyncio.to_thread(ledger.refuse_replacing, changed):
                del verdicts[name]
            kept = {name: former[name] for name in again}
            await asyncio.to_thread(ledger.apply_plan, verdicts, document_ids=ids, former=kept)

    await run_workers(work, number=_ASKED_AT_ONCE)
    await asyncio.to_thread(ledger.set_aside, refused=not retry_refused)
    return await asyncio.to_thread(read_plan, ledger)


def count_unreadable_suffixes(ledger: Ledger) -> Counter[str]:

    suffixes = (PurePath(entry.document.file_name).suffix.lower() for entry in ledger.walk(State.PLANNED))
    return Counter(suffix for suffix in suffixes if suffix in UNREAD_SUFFIXES)


def read_plan(ledger: Ledger) -> Plan:
    """Return the plan from the ledger; correct until the first document is sent."""
    counts, sends = ledger.counts(), (Action.CREATE, Action.UPDATE)

    def number(*states: State, actions: Container[Action | None] = (None, *sends)) -> int:
        return sum(count.documents for count in counts if count.state in states and count.action in actions)

    # Documents that are UPLOADED without an action were sent by an earlier run; this run checks their indexing.
    done, deletes = (State.UPLOADED, State.INDEXED), (Action.DELETE,)
    return Plan(
        create=number(State.PLANNED, actions=(Action.CREATE,)),
        update=number(State.PLANNED, actions=(Action.UPDATE,)),
        unchanged=number(State.UNCHANGED) + number(*done, actions=(None,)),
        forbidden=number(State.FORBIDDEN),
        refused=number(State.FAILED),
        resumed=number(*done, actions=sends),
        ignored=number(State.IGNORED) + ledger.problem_count(ignored=True),
        delete=number(State.PLANNED, actions=deletes),
        left=number(State.UNCHANGED, actions=deletes),
        gone=number(State.KEPT, actions=deletes),
        left_out=number(State.IGNORED, actions=deletes),
        held_back=ledger.blocked_reason(),
    )
