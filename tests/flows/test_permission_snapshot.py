"""Who may read what, as files: complete, of one moment, never overwritten, and compared with the last snapshot."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from carrel import Carrel
from flows.errors import RefusedError
from flows.operations.snapshots import taking
from flows.operations.snapshots.comparing import People, Readers, compare
from flows.operations.snapshots.files import COLUMNS, list_snapshots, read_manifest
from flows.operations.snapshots.taking import take_snapshot
from flows.permission_snapshot import SNAPSHOT, permission_snapshot
from flows.runs import CHANGES
from flows.settings import FlowSettings
from tests.client.test_docs import ROOT, run_code_of
from tests.flows.serving import artifacts_of

ADA, BEN, CAT = "ada@example.com", "ben@example.com", "cat@example.com"


@pytest.fixture
def admin(service):
    with Carrel(service.api_key, service.base_url) as client:
        client.admin.users.upsert([{"email": email} for email in (ADA, BEN, CAT)])
        yield client


def a_group(admin: Carrel, name: str, *members: dict) -> dict:
    return {"type": "group", "id": admin.admin.groups.upsert([{"name": name, "members": members}]).groups[0].id}


def a_document(admin: Carrel, name: str, **access) -> dict[str, str]:
    done = admin.catalog.upload_file(name.encode(), file_name=f"{name}.txt", document_external_id=name, **access)
    return {"resource_id": str(done.document_id), "resource_type": "UPLOADED_DOCUMENT"}


def person(email: str) -> dict[str, str]:
    return {"type": "user", "email": email}


def readers_by(folder: Path) -> dict[str, set[str]]:
    people = People()
    readers = Readers(folder, people)
    return {
        identity.partition(":")[2]: set(people.first_names(readers.of(access_class), limit=1000))
        for _, identity, access_class in readers.resources()
    }


def looked_up(admin: Carrel, resource_id: str) -> set[str]:
    resource = {"resource_id": resource_id, "resource_type": "UPLOADED_DOCUMENT"}
    found = admin.permissions.list_authorized_principals_for_resource(resource)
    return {one.email for one in found if one.type == "user"}


async def test_it_says_what_the_look_ups_say(admin: Carrel, flow_settings: FlowSettings) -> None:
    """Direct, nested and public access are included; the queries of docs/snapshots.md agree."""
    ship = a_group(admin, "Ship", a_group(admin, "Crew", person(ADA)), person(BEN))
    a_document(admin, "private")
    a_document(admin, "direct", allowed_users_email_addresses=[CAT])
    a_document(admin, "wide", internal_public=True)
    nested = a_document(admin, "nested", allowed_group_ids=[str(ship["id"])])["resource_id"]
    taken = await take_snapshot(flow_settings)
    found = readers_by(taken.folder)
    assert len(found) == taken.manifest.rows["resources"] == 4
    assert {name: looked_up(admin, name) for name in found} == found
    assert {ADA, BEN} < found[nested]
    assert taken.manifest.consistent
    assert (taken.difference, taken.problems) == (None, ())
    page: dict = {"folder": taken.folder, "resource_id": nested}
    assert run_code_of(ROOT / "docs" / "snapshots.md", page) == 1
    assert {name: set(page["readers"](taken.folder, name)) for name in found} == found


async def test_what_widened_and_what_narrowed(admin: Carrel, flow_settings: FlowSettings) -> None:
    crew = a_group(admin, "Crew", person(ADA))
    shared = [a_document(admin, f"crew {number}", allowed_group_ids=[str(crew["id"])]) for number in range(5)]
    closing = a_document(admin, "closing", internal_public=True)
    role = a_document(admin, "role", allowed_users_email_addresses=[ADA])
    going = a_document(admin, "going")
    first = await take_snapshot(flow_settings)

    admin.admin.groups.add_members(crew["id"], [person(BEN)])
    admin.admin.grants.set(closing, [{"principal": person(ADA), "role": "VIEWER"}])
    admin.admin.grants.set(role, [{"principal": person(ADA), "role": "EDITOR"}])
    admin.catalog.delete_document(going["resource_id"])
    a_document(admin, "coming")
    second = await take_snapshot(flow_settings)
    found = second.difference
    assert found is not None
    assert (found.widened, found.gained) == (5, 5)
    assert (found.narrowed, found.lost) == (1, 2)
    assert (found.same, found.added, found.removed) == (1, 1, 1)
    opened, closed = found.changes
    assert (opened.change, opened.resources, opened.people, opened.who) == ("widened", 5, 1, [BEN])
    assert set(opened.examples) < {f"UPLOADED_DOCUMENT:{one['resource_id']}" for one in shared}
    assert (closed.change, closed.resources, set(closed.who)) == ("narrowed", 1, {BEN, CAT})
    assert found.consistent
    assert not found.is_empty
    back = compare(second.folder, first.folder)
    assert (back.widened, back.gained, back.narrowed, back.lost) == (1, 2, 5, 5)


async def test_people_who_come_and_go(admin: Carrel, flow_settings: FlowSettings) -> None:
    a_document(admin, "wide", internal_public=True)
    a_document(admin, "ada's", allowed_users_email_addresses=[ADA])
    await take_snapshot(flow_settings)
    admin.admin.users.upsert([{"email": ADA, "active": False}, {"email": "new@example.com"}])
    found = (await take_snapshot(flow_settings)).difference
    assert found is not None
    assert (found.joined, found.left) == (1, 1)
    assert (found.widened, found.gained, found.narrowed, found.lost) == (1, 1, 2, 2)
    assert {who for one in found.changes for who in one.who} == {ADA, "new@example.com"}


async def test_nothing_changed(admin: Carrel, flow_settings: FlowSettings) -> None:
    a_document(admin, "log", internal_public=True)
    first, second = await take_snapshot(flow_settings), await take_snapshot(flow_settings)
    assert first.folder != second.folder
    assert list_snapshots(first.folder.parent) == [first.folder, second.folder]
    assert second.difference is not None
    assert second.difference.is_empty
    assert json.loads((second.folder / "difference.json").read_text())["same"] == 1
    for name, columns in COLUMNS.items():
        table = pq.read_table(first.folder / f"{name}.parquet")
        assert tuple(table.column_names) == columns
        assert table.num_rows == first.manifest.rows[name]
    assert read_manifest(first.folder) == first.manifest
    assert first.folder.stat().st_mode & 0o077 == 0


Changing = Callable[[Callable[[int], object]], None]


@pytest.fixture
def while_listing(monkeypatch: pytest.MonkeyPatch) -> Changing:
    def arrange(work: Callable[[int], object]) -> None:
        walk = taking._write_tables
        walks = 0

        async def everything(*given) -> dict[str, int]:
            nonlocal walks
            rows = await walk(*given)
            walks += 1
            work(walks)
            return rows

        monkeypatch.setattr(taking, "_write_tables", everything)

    return arrange


async def test_what_changes_meanwhile_is_listed_anew(admin, flow_settings, while_listing) -> None:
    a_document(admin, "first")
    while_listing(lambda walk: a_document(admin, "second", internal_public=True) if walk == 1 else None)
    taken = await take_snapshot(flow_settings)
    assert (taken.manifest.consistent, taken.manifest.attempts) == (True, 2)
    found = readers_by(taken.folder)
    assert {name: looked_up(admin, name) for name in found} == found
    assert len(found) == 2


async def test_endless_changes_are_told(admin: Carrel, flow_settings: FlowSettings, while_listing: Changing) -> None:
    while_listing(lambda walk: a_document(admin, f"document {walk}") if walk <= taking.ATTEMPTS else None)
    taken = await take_snapshot(flow_settings)
    assert (taken.manifest.consistent, taken.manifest.attempts) == (False, taking.ATTEMPTS)
    assert "mixes several moments" in taken.problems[0]
    following = (await take_snapshot(flow_settings)).difference
    assert following is not None
    assert not following.consistent


async def test_a_damaged_snapshot_is_told_and_not_compared_with(admin: Carrel, flow_settings: FlowSettings) -> None:
    a_document(admin, "log")
    first = await take_snapshot(flow_settings)
    (first.folder / "holders.parquet").write_bytes(b"PAR1 and no more")
    second = await take_snapshot(flow_settings)
    assert second.difference is None
    assert str(first.folder) in second.problems[0]
    third = await take_snapshot(flow_settings)
    assert third.difference is not None
    assert third.problems == ()


async def test_it_is_for_admins_and_leaves_nothing_when_refused(service, flow_settings, monkeypatch) -> None:
    monkeypatch.setenv("CARREL_API_KEY", service.new_user("dan@example.com"))
    with pytest.raises(RefusedError):
        await take_snapshot(FlowSettings())
    assert not flow_settings.snapshots.exists()


async def test_what_fails_half_way_leaves_nothing(flow_settings: FlowSettings, while_listing: Changing) -> None:
    first = await take_snapshot(flow_settings)

    def fail(walk: int) -> None:
        if walk == 1:
            raise OSError(28, "No space left on device")

    while_listing(fail)
    with pytest.raises(OSError, match="No space"):
        await take_snapshot(flow_settings)
    assert [one.name for one in first.folder.parent.iterdir()] == [first.folder.name]
    second = await take_snapshot(flow_settings)
    assert second.difference is not None
    assert second.difference.since == first.folder.name


async def test_as_a_flow(admin: Carrel, flow_settings: FlowSettings, prefect_api: str) -> None:
    log = a_document(admin, "log")
    first = await take_snapshot(flow_settings)
    admin.admin.grants.set(log, [{"principal": person(ADA), "role": "VIEWER"}])
    state = await permission_snapshot(return_state=True)
    assert state.name == "Completed"
    artifacts = artifacts_of(prefect_api, state)
    assert f"`{first.folder.name}`" in artifacts[SNAPSHOT]
    assert "| widened | 1 | 1 |" in artifacts[SNAPSHOT]
    assert ADA in artifacts[CHANGES]
