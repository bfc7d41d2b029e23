"""Whatever the groups and grants: explanations, checks and the two lists say what sets of names say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.harness.services import RunningService
from tests.service.directory import a_group, a_resource, a_user, done, group, readable, user, walk
from tests.service.service_accounts import account, an_account, enable_service_accounts

GROUPS = tuple("abcdef")
USERS = ("ada", "ben", "gone")
ROBOT, EVERYONE = "robot", "everyone"
PRINCIPALS = (*USERS, ROBOT, *GROUPS)
RESOURCES = {"nobody's": None, "ada's": "ada", "gone's": "gone"}

Grant = tuple[str, str]
"""Who, and which role."""


@dataclass(frozen=True)
class Case:
    """Who is in which group, and the grants on a resource, the owner's among them."""

    members: dict[str, frozenset[str]]
    resource: str
    granted: frozenset[Grant]
    organization_wide: bool

    @property
    def grants(self) -> frozenset[Grant]:
        """All of them."""
        owner = RESOURCES[self.resource]
        owned = {(owner, "OWNER")} if owner else set[Grant]()
        return self.granted | owned | ({(EVERYONE, "VIEWER")} if self.organization_wide else set())

    def around(self, name: str) -> set[str]:
        """The groups a principal is directly in; everyone is one that users are in."""
        return {one for one, members in self.members.items() if name in members} | ({EVERYONE} & set(self.wide(name)))

    def wide(self, name: str) -> tuple[str, ...]:
        """Everyone, for a user."""
        return (EVERYONE,) if name in USERS else ()

    def chains(self, name: str, top: str, *, walked: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Every chain without repetitions from a principal to a holder."""
        here = (*walked, name)
        if name == top:
            yield here
        else:
            for above in self.around(name) - set(here):
                yield from self.chains(above, top, walked=here)

    def paths(self, name: str) -> set[tuple[str, ...]]:
        """The shortest chains to each grant, with the role it gives; none for who isn't active."""
        found: set[tuple[str, ...]] = set()
        for holder, role in self.grants if name != "gone" else ():
            chains = list(self.chains(name, holder))
            shortest = min(map(len, chains), default=0)
            found |= {(*chain, role) for chain in chains if len(chain) == shortest}
        return found


members = st.frozensets(st.sampled_from(PRINCIPALS), max_size=4)
cases = st.builds(
    Case,
    members=st.fixed_dictionaries(dict.fromkeys(GROUPS, members)),
    resource=st.sampled_from(sorted(RESOURCES)),
    granted=st.frozensets(st.tuples(st.sampled_from(PRINCIPALS), st.sampled_from(("VIEWER", "EDITOR"))), max_size=3),
    organization_wide=st.booleans(),
)


class World:
    """The same in the service."""

    def __init__(self, service: RunningService) -> None:
        self.service = service
        enable_service_accounts(service)
        people = {name: a_user(service, f"{name}@example.test", active=name != "gone") for name in USERS}
        self.robot = an_account(service, "robot")
        groups = {name: a_group(service, name) for name in GROUPS}
        self.named = {name: user(one["email"]) for name, one in people.items()}
        self.named |= {name: group(one) for name, one in groups.items()} | {ROBOT: account(self.robot)}
        self.ids = {name: one["id"] for name, one in {**people, **groups}.items()}
        self.names = {identity: name for name, identity in self.ids.items()} | {self.named[ROBOT]["id"]: ROBOT}
        self.emails = {name: one["email"] for name, one in people.items()} | {ROBOT: self.robot["email"]}
        for resource, owner in RESOURCES.items():
            a_resource(service, resource, owner=self.ids[owner] if owner else None)

    def become(self, case: Case) -> None:
        """Replace all members and the resource's grants."""
        groups = [
            {"id": self.ids[name], "name": name, "members": [self.named[one] for one in sorted(members)]}
            for name, members in case.members.items()
        ]
        done(self.service.call("admin/groups/upsert", {"groups": groups}))
        given = [{"principal": self.named[who], "role": role} for who, role in sorted(case.granted)]
        body = {"resource": self.resource(case), "grants": given, "organizationWide": case.organization_wide}
        done(self.service.call("admin/grants/set", body))

    def resource(self, case: Case) -> dict[str, str]:
        """The case's resource, as requests name it."""
        return {"resourceId": case.resource, "resourceType": "UPLOADED_DOCUMENT"}

    def asked(self, case: Case) -> dict[str, Any]:
        """A question about it."""
        return {"resource": self.resource(case), "action": "READ"}

    def explained(self, case: Case, name: str) -> dict[str, Any]:
        """The explanation for a principal."""
        body = {**self.asked(case), "principal": self.named[name]}
        return done(self.service.call("permissions/explainAuthorization", body))

    def path(self, steps: list[dict[str, Any]]) -> tuple[str, ...]:
        """A path in the model's names."""
        *chain, grant, resource = steps
        assert (grant["type"], resource["type"]) == ("grant", "resource")
        names = (EVERYONE if one["type"] == "organization" else self.names[one["id"]] for one in chain)
        return (*names, grant["role"])

    def listed(self, case: Case) -> list[str]:
        """Who is listed; the admin, whom the model doesn't know, left out."""
        rows = walk(self.service, "permissions/listAuthorizedPrincipalsForResource", self.asked(case), page_size=3)
        return [self.names[row["id"]] for row in rows if row["id"] in self.names]

    def checked(self, case: Case, name: str) -> bool:
        """What the check says of a person."""
        body = {**self.asked(case), "userEmail": self.emails[name]}
        return done(self.service.call("permissions/checkResourceAuthorizationForUser", body))["authorized"]


def hold(world: World, case: Case) -> None:
    """Everything that can be asked is answered as the model would."""
    world.become(case)
    paths = {name: case.paths(name) for name in PRINCIPALS}
    for name, expected in paths.items():
        answer = world.explained(case, name)
        found = [world.path(steps) for steps in answer["paths"]]
        assert (len(found), set(found)) == (len(expected), expected), name
        assert [len(one) for one in found] == sorted(len(one) for one in found)
        assert (answer["authorized"], answer["complete"]) == (bool(expected), True)
        assert ("missing" in answer) == (not expected)
    assert sorted(world.listed(case)) == sorted(name for name in PRINCIPALS if paths[name])
    assert {name: world.checked(case, name) for name in world.emails} == {
        name: bool(paths[name]) for name in world.emails
    }
    for name in ("ada", "ben"):
        assert (case.resource in readable(world.service, world.emails[name])) == bool(paths[name])


COMMON = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False, phases=[Phase.generate]
)


def test_explanations_checks_and_lists_agree_with_sets(service: RunningService) -> None:
    """The same few graphs every time, cycles among them."""
    world = World(service)

    @settings(COMMON, max_examples=15, derandomize=True)
    @given(case=cases)
    def agree(case: Case) -> None:
        hold(world, case)

    agree()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_explanations_checks_and_lists_agree_with_sets_for_a_thousand_graphs(service: RunningService) -> None:
    """New graphs every time."""
    world = World(service)

    @settings(COMMON, max_examples=1000)
    @given(case=cases)
    def agree(case: Case) -> None:
        hold(world, case)

    agree()
