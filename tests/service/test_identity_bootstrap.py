"""The first organization, from the settings."""

import asyncio

import pytest
from argon2 import PasswordHasher
from pydantic import SecretStr

from service import migrations
from service.identity.passwords import hash_password
from service.operate.bootstrap import bootstrap
from service.platform.database import Database
from service.platform.settings import Settings
from tests.harness.databases import TestDatabases
from tests.harness.services import ADMIN_PASSWORD, API_KEY, RunningService, settings_for_test
from tests.service.directory import code, done


async def start(databases: TestDatabases, name: str, settings: Settings) -> None:
    database = Database(databases.service_url(name))
    try:
        async with database.transaction(None) as connection:
            await bootstrap(connection, settings)
    finally:
        await database.close()


def an_empty_database(databases: TestDatabases) -> str:
    name = databases.empty()
    migrations.upgrade(databases.owner_url(name))
    return name


async def test_replicas_that_start_at_once_make_one_organization(databases, tmp_path, monkeypatch) -> None:
    all_have_looked = asyncio.Barrier(4)

    async def hash_together(password: SecretStr) -> str:
        hashed = await hash_password(password)
        await all_have_looked.wait()
        return hashed

    monkeypatch.setattr("service.operate.bootstrap.hash_password", hash_together)
    name = await asyncio.to_thread(an_empty_database, databases)
    settings = settings_for_test(tmp_path, None, bootstrap_admin_email="Root@Example.org")
    await asyncio.gather(*(start(databases, name, settings) for _ in range(4)))
    await start(databases, name, settings_for_test(tmp_path, None, bootstrap_admin_email="second@example.org"))
    with databases.connect(name) as connection:
        organizations = connection.execute("SELECT organization_id, domain FROM organizations").fetchall()
        people = connection.execute(
            "SELECT kind, email, is_admin, principal_id FROM principals ORDER BY kind"
        ).fetchall()
        keys = connection.execute("SELECT hint, may_act_for_users FROM api_keys").fetchall()
        kept = connection.execute("SELECT password_hash FROM principals WHERE is_admin").fetchall()
    assert [domain for _, domain in organizations] == ["example.org"]
    assert [row[:3] for row in people] == [("everyone", None, False), ("user", "root@example.org", True)]
    assert people[0][3] == organizations[0][0]
    assert keys == [(API_KEY[-4:], True)]
    assert PasswordHasher().verify(kept[0][0], ADMIN_PASSWORD)


async def test_settings_that_cannot_work_stop_the_start_and_are_not_repeated(databases, tmp_path) -> None:
    name = await asyncio.to_thread(an_empty_database, databases)
    wrong: list[dict[str, object]] = [
        {"bootstrap_api_key": SecretStr("svc_key_short")},
        {"bootstrap_api_key": SecretStr("hunter2" * 10)},
        {"bootstrap_admin_email": "nobody"},
        {"bootstrap_admin_password": SecretStr("hunter2")},
    ]
    for settings in wrong:
        with pytest.raises(ValueError, match="CARREL_BOOTSTRAP_") as caught:
            await start(databases, name, settings_for_test(tmp_path, None, **settings))
        assert "hunter2" not in str(caught.value)
    with databases.connect(name) as connection:
        assert connection.execute("SELECT count(*) FROM organizations").fetchone() == (0,)


def test_the_admin_and_key_of_the_settings_work(own_service: RunningService) -> None:
    keys = done(own_service.call("admin/apiKeys/list"))["apiKeys"]
    assert [(one["ownerEmail"], one["mayActForUsers"], one["status"]) for one in keys] == [
        (own_service.admin_email, True, "active")
    ]
    assert done(own_service.call("admin/organization/get"))["domain"] == "example.test"
    mistyped = own_service.call("admin/organization/get", api_key=own_service.api_key[:-1] + "x")
    assert code(mistyped) == (401, "invalid_credential")
