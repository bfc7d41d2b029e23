"""For any groups and grants, explanations, checks and both lists agree with sets of names."""

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.harness.services import RunningService
from tests.properties.model import EDITOR, EVERYONE, VIEWER, Model, Text, User
from tests.properties.operations import Operations, an_operation
from tests.properties.world import ADMIN, World

GROUPS = tuple("abcdef")
ADA, BEN, GONE, ROBOT = "ada@example.test", "ben@example.test", "gone@example.test", "robot"
PRINCIPALS = (ADA, BEN, GONE, ROBOT, *GROUPS)
RESOURCES = ("nobody's", "ada's", "gone's")

members = st.frozensets(st.sampled_from(PRINCIPALS), max_size=4)
granted = st.frozensets(st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from((VIEWER, EDITOR))), max_size=3)


class Graphs(Operations):
    """People, an account and groups; an agent without owner, and documents of Ada's and of a deleted person."""

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
        for principal in PRINCIPALS:
            self.check_explanation(resource, principal)
        self.check_readers(resource, 3)
        for subject in (ADA, BEN, GONE, ROBOT):
            self.check_authorizations(None, subject, userEmail=self.world.address(subject))
        for user in (ADA, BEN):
            self.check_authorized_resources(user, user, 100)


def agree(service: RunningService, **options: Any) -> None:
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
    """Always a few equal graphs, with cycles."""
    agree(service, max_examples=15, derandomize=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_explanations_checks_and_lists_agree_with_sets_for_a_thousand_graphs(service: RunningService) -> None:
    agree(service, max_examples=1000)
