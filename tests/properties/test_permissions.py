"""After changes of principals, credentials, grants, documents and collections, a plain model knows the visible."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.harness.cluster import VARIABLE as CLUSTER
from tests.harness.databases import TestDatabases
from tests.harness.processes import ServiceProcess
from tests.properties.machine import Permissions

STEPS = int(os.environ.get("PERMISSION_STEPS", "10000"))
# What the long run has done, alone or at the same time: hundreds of times, most of it.
DONE = """
    change_user create_account delete_account enable_accounts mint create_key revoke let_expire put_members add_members
    remove_members grant share enter_for enter_about upload delete_document restore_document create_collection
    delete_collection index_in_collection remove_from_collection everybody_sees put_agent deploy_agent delete_agent
    message transfer offboard provision provision_new provision_end provision_members provision_change restore_group
"""
RACES = "grant add_members remove_members revoke change_user transfer"
WAYS = {
    *(f"{name} done" for name in DONE.split()),
    *(f"upload with {name}" for name in RACES.split()),
    *("index_in_collection with grant", "upload unknown_principal", "grant unknown_principal"),
    *("share unknown_principal", "share owner_required", "share resource_not_found"),
    *("transfer invalid_new_owner", "offboard own_account", "provision_new uniqueness"),
    *(f"message {code}" for code in ("agent_not_found", "conversation_not_found", "api_access_off", "missing_scope")),
    *("message again shown", "message again blocked"),
    *(f"elsewhere {what}" for what in ("search", "fetch", "fetch document_not_found", "ask", "ask refused")),
    *(f"elsewhere {what}" for what in ("who", "who refused", "inactive")),
    *(f"elsewhere {what}" for what in ("shared", "shared withheld", "shared refused")),
}

COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    # A failing example is short enough to be read, and a step too slow to shrink it.
    phases=[Phase.generate],
)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The setting for a database on the cluster under test; empty for a single server."""
    if CLUSTER not in os.environ:
        yield {}
        return
    databases: TestDatabases = request.getfixturevalue("databases")
    name = databases.clone()
    address = databases.owner_url(name).set(drivername="postgresql")
    yield {"CARREL_DATABASE_URL": address.render_as_string(hide_password=False)}
    databases.drop(name)


@pytest.fixture
def service(database: dict[str, str], service_process: Callable[..., ServiceProcess]) -> ServiceProcess:
    service = service_process(CARREL_RATE_LIMIT_REQUESTS="0", CARREL_RATE_LIMIT_FAILURES="0", **database)
    service.ask_by_turns()
    return service


@pytest.mark.slow
def test_what_is_seen_is_what_the_model_says(service: ServiceProcess) -> None:
    """A few constant examples: the first steps of every way."""
    profile = settings(COMMON, max_examples=4, stateful_step_count=40, derandomize=True)
    run_state_machine_as_test(lambda: Permissions(service, Counter()), settings=profile)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_what_is_seen_is_what_the_model_says_for_ten_thousand_steps(service, capsys) -> None:
    """New examples every time, 10,000 steps, or PERMISSION_STEPS."""
    taken = Counter[str]()
    # Where CI is set, Hypothesis would repeat the same examples.
    profile = settings(COMMON, max_examples=min(20, math.ceil(STEPS / 50)), stateful_step_count=50, derandomize=False)
    while taken["steps"] < STEPS:
        run_state_machine_as_test(lambda: Permissions(service, taken), settings=profile)
        with capsys.disabled():
            print(f"{taken['steps']} steps", flush=True)  # noqa: T201 - how far an hour's run is
    # So few steps as a trial has don't go all ways.
    assert WAYS - taken.keys() == set() or STEPS < 10_000
