"""The secret key: one for a deployment, changed completely or not at all, even when the change is killed."""

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from service.operate.commands import run
from service.operate.deployment.service import ensure_secret_key
from service.platform.database import Database
from service.platform.deployment_errors import WrongSecretKeyError
from service.platform.secrets import Keys
from service.platform.settings import Settings
from tests.harness.processes import environment_without_settings, run_command
from tests.harness.services import RunningService, settings_for_test
from tests.service.directory import code, done

OLD, NEW = SecretStr("the old secret key of these tests, long"), SecretStr("the new secret key of these tests, long")
KILLS = {
    "before anything": "service.operate.deployment.service:write_successor",
    "with the new key kept beside": "service.operate.deployment.queries:replace_key_fingerprint",
    "with the database changed": "service.operate.deployment.service:promote_successor",
}


@dataclass(frozen=True)
class StoppedDeployment:
    """A database and a data folder without users."""

    url: str
    data_dir: Path
    database: Database

    @property
    def settings(self) -> Settings:
        return settings_for_test(self.data_dir, SecretStr(self.url), secret_key=None)

    def start(self, *, given: SecretStr | None = None) -> SecretStr:
        async def settle() -> SecretStr:
            try:
                return await ensure_secret_key(self.database, given=given, data_dir=self.data_dir)
            finally:
                await self.database.close()

        return asyncio.run(settle())

    def rotate(self, *arguments: str, **settings: SecretStr) -> tuple[int, str]:
        return rotate(self.settings.model_copy(update=settings), *arguments)

    def rotate_killed(self, moment: str) -> None:
        environment = {"CARREL_DATABASE_URL": self.url, "CARREL_DATA_DIR": str(self.data_dir)}
        run_command(environment_without_settings() | environment, "rotate-key", killed_at=KILLS[moment])

    def names(self) -> list[str]:
        return sorted(path.name for path in self.data_dir.iterdir())


def rotate(settings: Settings, *arguments: str) -> tuple[int, str]:
    statuses: list[int] = []
    said = io.StringIO()
    thread = threading.Thread(target=lambda: statuses.append(run(["rotate-key", *arguments], settings)))
    with redirect_stderr(said):
        thread.start()
        thread.join(60)
    return statuses[0], said.getvalue()


@pytest.fixture
def place(databases, tmp_path: Path) -> Iterator[StoppedDeployment]:
    name = databases.clone()
    url = databases.owner_url(name).set(drivername="postgresql").render_as_string(hide_password=False)
    yield StoppedDeployment(url, tmp_path, Database(databases.service_url(name)))
    databases.drop(name)


def test_the_first_start_makes_a_key_which_is_replaced_only_when_that_is_said(place: StoppedDeployment) -> None:
    key = place.start()
    assert len(key.get_secret_value()) >= 43
    assert place.names() == ["secret.key"]
    assert (place.data_dir / "secret.key").stat().st_mode & 0o777 == 0o600
    assert place.start() == key
    (place.data_dir / "secret.key").unlink()
    status, said = place.rotate()
    assert (status, "--lost" in said) == (1, True)
    status, said = place.rotate("--lost")
    assert status == 0, said
    assert place.start().get_secret_value() == (place.data_dir / "secret.key").read_text()


def test_another_key_is_refused_and_never_repeated(place: StoppedDeployment) -> None:
    place.start(given=OLD)
    with pytest.raises(WrongSecretKeyError, match="the same CARREL_SECRET_KEY on every replica") as caught:
        place.start(given=NEW)
    assert NEW.get_secret_value() not in str(caught.value)
    with pytest.raises(WrongSecretKeyError, match="rotate-key"):
        place.start()
    assert place.names() == []
    assert place.start(given=OLD) == OLD


def test_replicas_that_start_at_once_have_one_key(place: StoppedDeployment, tmp_path: Path) -> None:
    async def start(*folders: Path) -> list[SecretStr | BaseException]:
        try:
            starts = (ensure_secret_key(place.database, given=None, data_dir=folder) for folder in folders)
            return list(await asyncio.gather(*starts, return_exceptions=True))
        finally:
            await place.database.close()

    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    found = asyncio.run(start(first, first, second, second))
    kept = {key.get_secret_value() for key in found if isinstance(key, SecretStr)}
    files = [file for folder in (first, second) for file in folder.iterdir()]
    assert {file.name for file in files} == {"secret.key"}
    assert len(kept) == 1
    assert kept <= {file.read_text() for file in files}
    assert all(isinstance(key, SecretStr | WrongSecretKeyError) for key in found)


def test_keys_differ_by_purpose_organization_and_secret_key() -> None:
    first, second = uuid4(), uuid4()
    keys = [Keys(OLD).page_key(first), Keys(OLD).page_key(second), Keys(NEW).page_key(first)]
    keys += [Keys(OLD).fingerprint, Keys(NEW).fingerprint]
    assert len(set(keys)) == len(keys)
    assert Keys(OLD).page_key(first) == Keys(OLD).page_key(first)
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize("moment", KILLS)
def test_a_rotation_killed_at_any_moment_leaves_a_deployment_that_starts(place: StoppedDeployment, moment: str) -> None:
    old = place.start()
    place.rotate_killed(moment)
    assert ("secret.key.next" in place.names()) == (moment != "before anything")
    status, said = place.rotate()
    assert status == 0, said
    rotated = place.start()
    assert rotated != old
    assert place.names() == ["secret.key"]
    place.rotate_killed(moment)
    key = place.start()
    assert (key == rotated) == (moment != "with the database changed")
    assert place.names() == ["secret.key"]
    assert key.get_secret_value() == (place.data_dir / "secret.key").read_text()


def test_a_key_of_the_environment_is_rotated_by_the_environment(place: StoppedDeployment) -> None:
    place.start(given=OLD)
    status, said = place.rotate(secret_key=OLD)
    assert (status, "CARREL_NEW_SECRET_KEY" in said) == (1, True)
    assert place.rotate(secret_key=SecretStr("x" * 40), new_secret_key=NEW)[0] == 1
    assert place.rotate(secret_key=OLD, new_secret_key=OLD)[0] == 0
    assert place.start(given=OLD) == OLD
    for _ in range(2):
        status, said = place.rotate(secret_key=OLD, new_secret_key=NEW)
        assert status == 0, said
        assert "on every replica" in said
        assert OLD.get_secret_value() not in said
        assert NEW.get_secret_value() not in said
    assert place.start(given=NEW) == NEW
    with pytest.raises(WrongSecretKeyError):
        place.start(given=OLD)
    assert place.names() == []


def test_no_key_is_rotated_under_a_running_service(service: RunningService) -> None:
    done(service.call("admin/organization/get"))
    settings = service.settings.model_copy(update={"new_secret_key": NEW})
    status, said = rotate(settings)
    assert status == 1
    assert "Stop it on every machine first" in said
    [[kept]] = service.execute("SELECT key_fingerprint FROM deployment")
    assert settings.secret_key is not None
    assert kept == Keys(settings.secret_key).fingerprint


def test_page_tokens_end_with_their_key(databases, make_service: Callable[..., RunningService]) -> None:
    name = databases.clone()
    body = {"pageSize": 1}
    first, second = (make_service(database=name, secret_key=OLD) for _ in range(2))
    for number in range(3):
        first.new_user(f"user{number}@example.test")
    token = done(first.call("admin/users/list", body))["nextPageToken"]
    assert done(second.call("admin/users/list", {**body, "pageToken": token}))["users"]
    first.execute("UPDATE deployment SET key_fingerprint = %s", [Keys(NEW).fingerprint])
    rotated = make_service(database=name, secret_key=NEW)
    assert code(rotated.call("admin/users/list", {**body, "pageToken": token})) == (400, "invalid_page_token")
