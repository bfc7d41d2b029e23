"""The import of a directory against the real service: planned, applied, interrupted, and repeated."""

import io
import threading
from collections.abc import Callable
from uuid import uuid4

import httpx
import pytest

from carrel import AuthenticationError, BadRequestError, InvalidArgumentError, PermissionDeniedError, PlanRefusedError
from carrel.directory import DirectoryPlan, GroupAction, MembershipAction, Progress, UserAction
from tests.client.conftest import Caller, MakeCaller
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.directory import walk

USERS = (
    "email,name,isAdmin,active\nada@example.test,Ada,true,\ngrace@example.test,Grace,,\nALAN@example.test,Alan,,false\n"
)
GROUPS = "externalId,name\neng,Engineering\nops,Operations\nall,Everybody\n"
MEMBERSHIPS = (
    "group,member\neng,Ada@example.test\nEngineering,grace@example.test\n"
    "ops,alan@example.test\nall,eng\nall,ops\nall,eng\n"
)
FILES = {"users": USERS.encode(), "groups": GROUPS.encode(), "memberships": MEMBERSHIPS.encode()}


@pytest.fixture
def connect(service: RunningService, open_client: MakeCaller) -> MakeCaller:
    return lambda api_key=service.api_key, **options: open_client(api_key, service.base_url, **options)


Watched = Callable[[Callable[[str], None]], Caller]


@pytest.fixture
def watched(connect: MakeCaller) -> Watched:

    def make(tell: Callable[[str], None]) -> Caller:
        def hook(request: httpx.Request) -> None:
            tell(request.url.path.rpartition("/v0/")[2])

        async def hook_async(request: httpx.Request) -> None:
            hook(request)

        real = connect()
        real.client._session.driver.http.event_hooks = {"request": [hook_async if real.is_async else hook]}
        return real

    return make


@pytest.fixture
def real(connect: MakeCaller) -> Caller:
    return connect()


async def _plan(real: Caller, **options) -> DirectoryPlan:
    tables = options.pop("files", FILES)
    plan: DirectoryPlan = await real(lambda c: c.admin.directory.plan(**tables, **options))
    return plan


async def _refuse(real: Caller, plan: DirectoryPlan, said: str) -> None:
    with pytest.raises(PlanRefusedError, match=said):
        await real(lambda c: c.admin.directory.apply(plan))


async def _import(real: Caller, **options) -> DirectoryPlan:
    plan = await _plan(real, **options)
    await real(lambda c: c.admin.directory.apply(plan))
    return plan


def _rows(service: RunningService, operation: str, **members) -> list[dict]:
    """Return all rows of a list, requested without the code under test."""
    return walk(service, operation, members, page_size=1000)


def _members(service: RunningService, external_id: str) -> set[str]:
    [group] = [one["id"] for one in _rows(service, "admin/groups/list") if one.get("externalId") == external_id]
    return {one.get("email") or one["name"] for one in _rows(service, "admin/groups/listMembers", groupId=group)}


def _users(service: RunningService) -> dict[str, tuple[str, bool, bool]]:
    return {one["email"]: (one["name"], one["isAdmin"], one["active"]) for one in _rows(service, "admin/users/list")}


def _changes(service: RunningService) -> int:
    return len(_rows(service, "admin/auditLog/query"))


async def test_an_empty_organization_becomes_what_the_files_say(real: Caller, service: RunningService) -> None:
    before = _changes(service)
    plan = await _plan(real)
    assert not plan.problems
    assert [plan.count(action) for action in (UserAction.CREATE, GroupAction.CREATE, MembershipAction.ADD)] == [3, 3, 5]
    assert (plan.change_count, plan.is_empty, _changes(service)) == (11, False, before)
    assert (await real(lambda c: c.admin.directory.apply(plan))).model_dump(by_alias=False) == {
        "users": 3,
        "deactivated_users": 0,
        "groups": 3,
        "members_added": 5,
        "members_removed": 0,
    }
    assert _users(service) == {
        ADMIN_EMAIL: (_users(service)[ADMIN_EMAIL][0], True, True),
        "ada@example.test": ("Ada", True, True),
        "grace@example.test": ("Grace", False, True),
        "alan@example.test": ("Alan", False, False),
    }
    assert _members(service, "eng") == {"ada@example.test", "grace@example.test"}
    assert _members(service, "all") == {"Engineering", "Operations"}


async def test_a_second_run_plans_nothing(real: Caller, service: RunningService) -> None:
    await _import(real)
    before = _changes(service)
    plan = await _import(real)
    assert plan.is_empty
    assert (plan.unchanged_users, plan.unchanged_groups, plan.unchanged_memberships) == (3, 3, 5)
    assert _changes(service) == before


async def test_only_what_differs_is_changed(real: Caller, service: RunningService) -> None:
    await _import(real)
    files = {
        "users": USERS.replace("Grace,,", "Grace Hopper,true,") + "new@example.test,New,,\n",
        "groups": GROUPS.replace("Operations", "Ops"),
        "memberships": "group,member\neng,new@example.test\neng,ada@example.test\nops,all\nall,eng\nall,ops\n",
    }
    plan = await _import(real, files={name: text.encode() for name, text in files.items()})
    assert [(one.action, one.email, one.name, one.name_before, one.is_admin) for one in plan.users] == [
        ("UPDATE", "grace@example.test", "Grace Hopper", "Grace", True),
        ("CREATE", "new@example.test", "New", None, None),
    ]
    assert [(one.action, one.external_id, one.name_before, one.name) for one in plan.groups] == [
        ("RENAME", "ops", "Operations", "Ops")
    ]
    assert [(one.action, one.group, one.member_type, one.member) for one in plan.memberships] == [
        ("ADD", "eng", "user", "new@example.test"),
        ("ADD", "ops", "group", "all"),
        ("REMOVE", "eng", "user", "grace@example.test"),
        ("REMOVE", "ops", "user", "alan@example.test"),
    ]
    assert _members(service, "eng") == {"ada@example.test", "new@example.test"}
    assert _members(service, "ops") == {"Everybody"}
    assert _users(service)["grace@example.test"] == ("Grace Hopper", True, True)


async def test_what_the_files_do_not_name_stays(real: Caller, service: RunningService) -> None:
    await _import(real)
    mine = await real(lambda c: c.admin.groups.upsert([{"name": "Mine", "external_id": "mine"}]))
    await real(lambda c: c.admin.groups.add_members(mine.groups[0].id, [{"type": "user", "email": "ada@example.test"}]))
    plan = await _import(real, files={"groups": b"externalId,name\nops,Operations\n"})
    assert plan.is_empty
    plan = await _import(real, files={"memberships": b"group,member\nops,grace@example.test\n"})
    assert [(one.action, one.group) for one in plan.memberships] == [("ADD", "ops"), ("REMOVE", "ops")]
    assert _members(service, "mine") == {"ada@example.test"}
    assert _members(service, "eng") == {"ada@example.test", "grace@example.test"}
    assert all(active for name, (_, _, active) in _users(service).items() if name != "alan@example.test")


async def test_service_accounts_stay_in_their_groups(real: Caller, service: RunningService) -> None:
    await real(lambda c: c.admin.organization.update(service_accounts_enabled=True))
    await _import(real)
    account = await real(lambda c: c.admin.service_accounts.create("Loader"))
    ops = next(group.id for group in await real.walk(real.client.admin.groups.list()) if group.external_id == "ops")
    member = {"type": "serviceAccount", "id": str(account.service_account_id)}
    await real(lambda c: c.admin.groups.add_members(ops, [member]))
    plan = await _import(real)
    assert plan.is_empty
    assert any("service accounts stay" in note for note in plan.notes)
    assert _members(service, "ops") == {"alan@example.test", account.email}
    plan = await _plan(real, files={**FILES, "users": (USERS + f"{account.email},Loader,,\n").encode()})
    assert [(one.line, "service account's address" in one.message) for one in plan.problems] == [(5, True)]
    plan = await _plan(real, files={**FILES, "memberships": f"group,member\neng,{account.email}\n".encode()})
    assert [(one.line, "is a service account" in one.message) for one in plan.problems] == [(2, True)]


PROBLEMS = (
    "group,member\neng,ada@example.test\neng,nobody@example.test\nnone,ada@example.test\nTwins,ada@example.test\n"
    "eng,Twins\n"
)


async def test_problems_stop_everything_unless_skipped(real: Caller, service: RunningService) -> None:
    await _import(real)
    before = _users(service), _members(service, "eng"), _changes(service)
    files = {"groups": (GROUPS + "t1,Twins\nt2,Twins\n").encode(), "memberships": PROBLEMS.encode()}
    plan = await _plan(real, files=files)
    assert [(one.file, one.line, one.message) for one in plan.problems] == [
        ("memberships", 3, "member: there is no user or group nobody@example.test; add it to the users or the groups"),
        ("memberships", 4, "group: there is no group none; add it to the groups"),
        ("memberships", 5, "group: several groups are called Twins; use the external id"),
        ("memberships", 6, "member: there is no user or group Twins; add it to the users or the groups"),
    ]
    await _refuse(real, plan, r"memberships, line 3: .* \(and 3 more\)")
    assert (_users(service), _members(service, "eng"), _changes(service)) == before
    plan = await _import(real, files=files, skip_problems=True)
    assert (plan.count(GroupAction.CREATE), plan.count(MembershipAction.REMOVE)) == (2, 0)
    assert _members(service, "eng") == before[1]


async def test_a_file_that_cannot_be_read_is_never_skipped(real: Caller, service: RunningService) -> None:
    broken = {**FILES, "users": b"email,name\nada@example.test,\xff\n"}
    assert len((await _plan(real, files=broken)).problems) == 1  # and not one more for each member it would have named
    await _import(real)
    before = _users(service)
    plan = await _plan(real, files=broken, deactivate_missing=True, skip_problems=True, force=True)
    assert plan.is_empty
    await _refuse(real, plan, "not UTF-8")
    assert _users(service) == before


async def test_missing_users_are_deactivated_when_asked(real: Caller, service: RunningService) -> None:
    await real(lambda c: c.admin.users.upsert([{"email": f"u{number}@example.test"} for number in range(20)]))
    rows = "".join(f"u{number}@example.test,U,\n" for number in range(18))
    files = {"users": f"email,name,active\n{rows}u18@example.test,U,false\n".encode()}
    await _import(real, files=files)
    assert _users(service)["u19@example.test"][2]
    plan = await _import(real, files=files, deactivate_missing=True)
    assert [(one.action, one.email) for one in plan.users] == [("DEACTIVATE", "u19@example.test")]
    assert any(ADMIN_EMAIL in note for note in plan.notes)
    assert {email for email, row in _users(service).items() if not row[2]} == {"u18@example.test", "u19@example.test"}
    assert (await _plan(real, files=files, deactivate_missing=True)).is_empty


async def test_too_many_missing_users_are_refused(real: Caller, service: RunningService) -> None:
    """More than a fifth of the active users is refused as a mistake, unless forced."""
    await _import(real)
    files = {"users": b"email,name\nada@example.test,Ada\n"}
    plan = await _plan(real, files=files, deactivate_missing=True)
    assert plan.refusal is not None
    assert "1 of 3 active users" in plan.refusal
    await _refuse(real, plan, "more than 20%")
    assert _users(service)["grace@example.test"][2]
    await _import(real, files=files, deactivate_missing=True, force=True)
    assert not _users(service)["grace@example.test"][2]
    assert _users(service)[ADMIN_EMAIL][1:] == (True, True)


async def test_members_are_not_taken_out_by_a_file_cut_short(real: Caller, service: RunningService) -> None:
    users = [{"email": f"u{number}@example.test", "name": "U"} for number in range(30)]
    rows = [{"group": "eng", "member": user["email"]} for user in users]
    groups = [{"externalId": "eng", "name": "Engineering"}]
    await _import(real, files={"users": users, "groups": groups, "memberships": rows})
    cut = {"memberships": rows[:19]}
    plan = await _plan(real, files=cut)
    assert plan.refusal is not None
    assert "11 of 30 memberships" in plan.refusal
    await _refuse(real, plan, "memberships would be removed")
    assert len(_members(service, "eng")) == 30
    inactive = [{**user, "active": False} for user in users[:11]]
    assert "11 of 31 active users" in ((await _plan(real, files={"users": inactive})).refusal or "")
    assert (await _plan(real, files={"users": inactive[:10]})).refusal is None
    assert (await _plan(real, files={"memberships": rows[:20]})).refusal is None
    await _import(real, files=cut, force=True)
    assert len(_members(service, "eng")) == 19


async def test_a_plan_takes_nobody_out_of_a_group_it_did_not_create_after_all(real, service):
    await real(lambda c: c.admin.organization.update(service_accounts_enabled=True))
    plan = await _plan(real)
    account = await real(lambda c: c.admin.service_accounts.create("Loader"))
    member = {"type": "serviceAccount", "id": str(account.service_account_id)}
    await real(lambda c: c.admin.groups.upsert([{"name": "E", "external_id": "eng", "members": [member]}]))
    for _ in range(2):
        await real(lambda c: c.admin.directory.apply(plan))
        assert _members(service, "eng") == {"ada@example.test", "grace@example.test", account.email}


async def test_a_plan_is_applied_where_it_was_made_and_locks_nobody_out(connect, service):
    key = service.new_user("boss@example.test", is_admin=True)
    plan = await _plan(connect(), files={"users": b"email,name,active\nboss@example.test,boss,false\n"})
    before = _changes(service)
    await _refuse(connect(key), plan, r"boss@example\.test may be the importing user")
    await _refuse(connect(), plan.model_copy(update={"organization_id": uuid4()}), "another organization")
    assert _changes(service) == before


@pytest.mark.parametrize("cells", ["false,", ",false"])
async def test_the_caller_is_never_locked_out(connect: MakeCaller, service: RunningService, cells: str) -> None:
    caller = connect(service.new_user("boss@example.test", is_admin=True))
    files = {"users": f"email,name,isAdmin,active\nBOSS@example.test,boss,{cells}\n".encode()}
    plan = await _plan(caller, files=files)
    assert [(one.line, "may be the importing user" in one.message) for one in plan.problems] == [(2, True)]
    plan = await _import(connect(), files=files)
    assert not plan.problems
    with pytest.raises((PermissionDeniedError, AuthenticationError)):
        await _plan(caller, files=files)


async def test_a_run_that_was_killed_is_completed_by_the_next(watched: Watched, service: RunningService) -> None:
    """After an interruption at any request, a second run completes the import."""
    left = 0

    def break_off(path: str) -> None:
        nonlocal left
        if path.endswith(("upsert", "addMembers", "removeMembers")):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

    real = watched(break_off)
    stops = 0
    for allowed in (0, 1, 1, 1, 1, 9):
        plan = await _plan(real)
        left = allowed
        try:
            await real(lambda c, plan=plan: c.admin.directory.apply(plan))
        except KeyboardInterrupt:
            stops += 1
    assert stops == 5
    assert (await _plan(real)).is_empty
    assert _members(service, "eng") == {"ada@example.test", "grace@example.test"}
    assert _members(service, "all") == {"Engineering", "Operations"}


async def test_a_plan_can_be_kept_and_applied_later(real: Caller, tmp_path) -> None:
    kept = tmp_path / "plan.json"
    plan = await _plan(real)
    kept.write_text(plan.model_dump_json())
    again = DirectoryPlan.model_validate_json(kept.read_text())
    assert again == plan
    assert again.to_frame("users")["email"].tolist() == ["ada@example.test", "grace@example.test", "alan@example.test"]
    assert again.to_frame("memberships")["member"].tolist()[-1] == "ops"
    assert list(again.to_frame("problems").columns) == ["file", "line", "message", "skippable"]
    await real(lambda c: c.admin.directory.apply(again))
    assert (await _plan(real)).is_empty


async def test_only_an_admin_may_import(connect: MakeCaller, service: RunningService) -> None:
    nobody = connect(service.new_user("nobody@example.test"))
    with pytest.raises(PermissionDeniedError):
        await _plan(nobody)


async def test_arguments(real: Caller) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        await _plan(real, files={})
    with pytest.raises(InvalidArgumentError, match="needs the users"):
        await _plan(real, files={"groups": FILES["groups"]}, deactivate_missing=True)


async def test_a_stale_plan_is_refused_by_the_service(real: Caller) -> None:
    await _import(real)
    plan = await _plan(real, files={"memberships": b"group,member\nops,ada@example.test\n"})
    elsewhere = plan.model_copy(
        update={"memberships": [plan.memberships[0].model_copy(update={"member": "stranger@example.test"})]}
    )
    with pytest.raises(BadRequestError, match="stranger@example"):
        await real(lambda c: c.admin.directory.apply(elsewhere))


@pytest.mark.usefixtures("service")
async def test_large_directories_go_in_few_requests(watched: Watched) -> None:
    paths: list[str] = []
    real = watched(paths.append)
    users = [{"email": f"p{number}@example.test", "name": f"P {number}"} for number in range(2500)]
    groups = [{"externalId": f"g{number}", "name": f"G {number}"} for number in range(30)]
    memberships = [{"group": f"g{number % 30}", "member": f"p{number}@example.test"} for number in range(2500)]
    files = {"users": users, "groups": groups, "memberships": memberships}
    heard: list[Progress] = []
    plan = await _plan(real, files=files)
    assert not any("listMembers" in path for path in paths)
    paths.clear()
    await real(lambda c: c.admin.directory.apply(plan, on_progress=heard.append))
    assert paths == ["admin/organization/get"] + ["admin/users/upsert"] * 3 + ["admin/groups/upsert"] * 2
    assert heard[-1] == Progress("memberships", 5030, 5030)
    paths.clear()
    heard.clear()
    plan = await _plan(real, files=files, on_progress=heard.append)
    assert plan.is_empty
    assert len(paths) == 1 + 3 + 1 + 30
    assert heard[-1] == Progress("reading members", 2500, 2500)


async def test_files_are_read_beside_the_event_loop(real: Caller) -> None:
    threads: list[int] = []

    class Watching(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            threads.append(threading.get_ident())
            return super().read(size)

    assert (await _plan(real, files={"groups": Watching(GROUPS.encode())})).count(GroupAction.CREATE) == 3
    assert [thread == threading.get_ident() for thread in threads] == [not real.is_async]
