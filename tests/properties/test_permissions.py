"""Whatever happens to principals, credentials, grants, documents and collections: a plain model says what is seen."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.harness.cluster import VARIABLE as CLUSTER
from tests.harness.databases import TestDatabases
from tests.harness.processes import ServiceProcess
from tests.harness.services import RunningService
from tests.properties.machine import Permissions
from tests.properties.model import EDITOR, EVERYONE, VIEWER, Model, Text, User
from tests.properties.operations import Operations, an_operation
from tests.properties.world import ADMIN, World

STEPS = int(os.environ.get("PERMISSION_STEPS", "10000"))
# What the long run has done, alone or at the same time: hundreds of times, most of it.
DONE = """
    change_user create_account delete_account enable_accounts mint create_key revoke let_expire put_members add_members
    remove_members grant enter_for enter_about upload delete_document create_collection delete_collection
    index_in_collection remove_from_collection everybody_sees put_agent deploy_agent delete_agent message transfer
    offboard provision provision_new provision_end provision_members provision_change
"""
RACES = "grant add_members remove_members revoke change_user transfer"
WAYS = {
    *(f"{name} done" for name in DONE.split()),
    *(f"upload with {name}" for name in RACES.split()),
    *("index_in_collection with grant", "upload unknown_principal", "grant unknown_principal"),
    *("transfer invalid_new_owner", "offboard own_account", "provision_new uniqueness"),
    *(f"message {code}" for code in ("agent_not_found", "conversation_not_found", "api_access_off", "missing_scope")),
    *("message again shown", "message again blocked"),
    *(f"elsewhere {what}" for what in ("search", "fetch", "fetch document_not_found", "ask", "ask refused")),
    *(f"elsewhere {what}" for what in ("who", "who refused", "inactive")),
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
    """The setting that names a database on the cluster under test; none where that is one server."""
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
    """A service of two worker processes, which are asked by turns."""
    service = service_process(CARREL_RATE_LIMIT_REQUESTS="0", CARREL_RATE_LIMIT_FAILURES="0", **database)
    service.ask_by_turns()
    return service


@pytest.mark.slow
def test_what_is_seen_is_what_the_model_says(service: ServiceProcess) -> None:
    """The same few examples every time: the first steps on every way."""
    profile = settings(COMMON, max_examples=4, stateful_step_count=40, derandomize=True)
    run_state_machine_as_test(lambda: Permissions(service, Counter()), settings=profile)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_what_is_seen_is_what_the_model_says_for_ten_thousand_steps(service, capsys) -> None:
    """New examples every time, 10,000 steps of them unless PERMISSION_STEPS says another number."""
    taken = Counter[str]()
    profile = settings(COMMON, max_examples=min(20, math.ceil(STEPS / 50)), stateful_step_count=50)
    while taken["steps"] < STEPS:
        run_state_machine_as_test(lambda: Permissions(service, taken), settings=profile)
        with capsys.disabled():
            print(f"{taken['steps']} steps", flush=True)  # noqa: T201 - how far an hour's run is
    # So few steps as a trial has don't go all ways.
    assert WAYS - taken.keys() == set() or STEPS < 10_000


GROUPS = tuple("abcdef")
ADA, BEN, GONE, ROBOT = "ada@example.test", "ben@example.test", "gone@example.test", "robot"
PRINCIPALS = (ADA, BEN, GONE, ROBOT, *GROUPS)
RESOURCES = ("nobody's", "ada's", "gone's")

members = st.frozensets(st.sampled_from(PRINCIPALS), max_size=4)
granted = st.frozensets(st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from((VIEWER, EDITOR))), max_size=3)


class Graphs(Operations):
    """People, an account and groups; an agent that nobody owns, and documents of Ada's and of a person who is gone."""

    def __init__(self, service: RunningService) -> None:
        self.world, self.model = World(service), Model(users={ADMIN: User(is_admin=True)})
        self.chance, self.taken, self.markers, self.titles = Random(0), Counter(), set(), set()  # noqa: S311
        self.do(an_operation("enable_accounts", enabled=True))
        self.do(an_operation("create_account", ROBOT))
        for user in (ADA, BEN, GONE):
            self.world.put_user(user).raise_for_status()
            self.model.users[user] = User()
        for group in GROUPS:
            self.do(an_operation("put_members", group, []))
        for owner, document in ((ADA, "ada's"), (GONE, "gone's")):
            self.do(an_operation("upload", owner, document, Text(document, document, 1)))
        self.do(an_operation("put_agent", "nobody's", [], api_access=True))
        self.do(an_operation("change_user", GONE, active=False, is_admin=False))

    def become(self, inside: Mapping[str, Iterable[str]]) -> None:
        ids, named = self.world.group_ids, self.world.principal
        groups = [{"id": ids[name], "name": name, "members": [*map(named, inside[name])]} for name in inside]
        self.world.ask("admin/groups/upsert", groups=groups)
        self.model.groups = {name: set(one) for name, one in inside.items()}

    def hold(self, resource: str) -> None:
        """Everything that can be asked about a resource is answered as the model would."""
        for principal in PRINCIPALS:
            self.check_explanation(resource, principal)
        self.check_readers(resource, 3)
        for subject in (ADA, BEN, GONE, ROBOT):
            self.check_authorizations(None, subject, userEmail=self.world.address(subject))
        for user in (ADA, BEN):
            self.check_authorized_resources(user, user, 100)


def agree(service: RunningService, **options: Any) -> None:
    """Hold the service to what the model says of graphs that hypothesis makes."""
    graphs = Graphs(service)
    common = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "print_blob": False}

    @settings(**common, phases=[Phase.generate], **options)
    @given(
        inside=st.fixed_dictionaries(dict.fromkeys(GROUPS, members)),
        resource=st.sampled_from(RESOURCES),
        roles=granted,
        everyone=st.sampled_from(([], [(EVERYONE, VIEWER)])),
    )
    def hold(inside: Any, resource: str, roles: Any, everyone: Any) -> None:
        graphs.become(inside)
        graphs.do(an_operation("grant", {resource: [*sorted(roles), *everyone]}))
        graphs.hold(resource)

    hold()


def test_explanations_checks_and_lists_agree_with_sets(service: RunningService) -> None:
    """The same few graphs every time, cycles among them."""
    agree(service, max_examples=15, derandomize=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_explanations_checks_and_lists_agree_with_sets_for_a_thousand_graphs(service: RunningService) -> None:
    agree(service, max_examples=1000)
