"""The scan: what of a source gets into the ledger."""

import json
from pathlib import Path

from flows.operations.ledger.ledger import Ledger
from flows.operations.names import Names
from flows.operations.scan import scan
from flows.operations.sources.documents import Defaults


async def _nothing() -> list[tuple[str, str]]:
    return []


async def test_external_id_the_service_cannot_take_costs_itself_alone(tmp_path: Path) -> None:
    """An external id beyond the service's limit is a problem of its row; the plan for the others can be asked."""
    (tmp_path / "a.md").write_text("a")
    rows = [{"path": "a.md", "externalId": "x" * 1025}, {"path": "a.md", "externalId": "y" * 1024}]
    manifest = tmp_path / "m.jsonl"
    manifest.write_text("\n".join(map(json.dumps, rows)))
    with Ledger.at(tmp_path / "ledgers", target="t", source="s") as ledger:
        ledger.begin()
        names = Names(groups=_nothing, collections=_nothing)
        scanned = await scan(ledger, str(manifest), defaults=Defaults(), names=names)
        assert (scanned.documents, scanned.problems) == (1, 1)
        assert [(failure.place, failure.code) for failure in ledger.failures()] == [("line 1", "external_id_invalid")]
