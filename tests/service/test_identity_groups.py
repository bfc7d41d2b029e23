"""Groups and their members."""

from tests.service.directory import a_group, a_user, code, done, group, user, walk

NOBODY = "00000000-0000-7000-8000-000000000000"


def test_a_group_is_found_by_id_then_external_id_then_name(service) -> None:
    """Loading a directory again makes no second group, and a name may be used by a group of a source system too."""
    plain = a_group(service, "Finance")
    external = a_group(service, "Finance", externalId="idp-1")
    assert external["id"] != plain["id"]
    assert a_group(service, "Finance") == plain
    del external["version"], plain["version"]
    assert a_group(service, "Money", externalId="idp-1").items() >= (external | {"name": "Money"}).items()
    assert a_group(service, "Accounts", id=plain["id"]).items() >= (plain | {"name": "Accounts"}).items()
    assert {one["name"] for one in walk(service, "admin/groups/list", {}, page_size=1)} == {"Money", "Accounts"}
    assert [one["name"] for one in walk(service, "admin/groups/list", {"query": "mon"}, page_size=9)] == ["Money"]


def test_members_given_replace_and_members_left_out_stay(service) -> None:
    for name in "abc":
        a_user(service, f"{name}@example.test")
    assert a_group(service, "Team", user("a@example.test"), user("B@example.test"))["memberCount"] == 2
    assert a_group(service, "Team", user("c@example.test"), user("c@example.test"))["memberCount"] == 1
    assert done(service.call("admin/groups/upsert", {"groups": [{"name": "Team"}]}))["groups"][0]["memberCount"] == 1
    assert a_group(service, "Team")["memberCount"] == 0


def test_members_are_added_and_removed_once(service) -> None:
    team, inner = a_group(service, "Team"), a_group(service, "Inner")
    a_user(service, "a@example.test")
    members = {"groupId": team["id"], "members": [user("a@example.test"), group(inner), group(team)]}
    for _ in range(2):
        assert done(service.call("admin/groups/addMembers", members)) == {"memberCount": 3}
    assert walk(service, "admin/groups/list", {"query": "team"}, page_size=9)[0]["memberCount"] == 3
    for _ in range(2):
        assert done(service.call("admin/groups/removeMembers", members)) == {"memberCount": 0}


def test_an_unknown_member_or_group_is_named_and_nothing_changes(service, elsewhere) -> None:
    a_user(elsewhere, "eve@example.test")
    team, ada = a_group(service, "Team"), a_user(service, "ada@example.test")
    known = user("ada@example.test")
    strangers: list[dict] = [
        user("nobody@example.test"),
        {"type": "group", "id": NOBODY},
        {"type": "group", "id": ada["id"]},
        {"type": "serviceAccount", "id": ada["id"]},
        user("eve@example.test"),
        group(a_group(elsewhere, "Theirs")),
    ]
    for operation in ("admin/groups/addMembers", "admin/groups/removeMembers"):
        for stranger in strangers:
            response = service.call(operation, {"groupId": team["id"], "members": [known, stranger]})
            assert code(response) == (400, "unknown_principal")
            assert [one["field"] for one in response.json()["error"]["details"]] == ["members.1"]
        for nowhere in (NOBODY, ada["id"]):
            response = service.call(operation, {"groupId": nowhere, "members": [known]})
            assert code(response) == (404, "group_not_found")
    assert walk(service, "admin/groups/list", {}, page_size=9)[0]["memberCount"] == 0


def test_groups_that_contradict_each_other_refuse_the_whole_call(service) -> None:
    known = a_group(service, "Known", externalId="idp-1")
    other = a_group(service, "Other")
    refused: list[tuple[list[dict], tuple[int, str]]] = [
        ([{"name": "New"}, {"name": "New"}], (400, "duplicate_group")),
        ([{"name": "A", "externalId": "x"}, {"name": "B", "externalId": "x"}], (400, "duplicate_group")),
        ([{"name": "A", "id": known["id"]}, {"name": "B", "externalId": "idp-1"}], (400, "duplicate_group")),
        ([{"name": "A"}, {"name": "B", "id": other["id"], "externalId": "idp-1"}], (409, "external_id_taken")),
        ([{"name": "A"}, {"name": "B", "id": NOBODY}], (404, "group_not_found")),
        ([{"name": "A", "members": [user("no@example.test")]}], (400, "unknown_principal")),
    ]
    for groups, expected in refused:
        assert code(service.call("admin/groups/upsert", {"groups": groups})) == expected
    assert {one["name"] for one in walk(service, "admin/groups/list", {}, page_size=9)} == {"Known", "Other"}
    a_group(service, "Twin", id=other["id"])
    a_group(service, "Twin", id=a_group(service, "T")["id"])
    assert code(service.call("admin/groups/upsert", {"groups": [{"name": "Twin"}]})) == (409, "name_ambiguous")


def test_a_thousand_groups_with_members_are_put_at_once(service) -> None:
    users = [{"email": f"u{number}@example.test"} for number in range(20)]
    done(service.call("admin/users/upsert", {"users": users}))
    groups = [
        {"name": f"g{number}", "members": [{"type": "user", **one} for one in users[: number % 20]]}
        for number in range(1000)
    ]
    put = done(service.call("admin/groups/upsert", {"groups": groups}))["groups"]
    assert [(one["name"], one["memberCount"]) for one in put] == [(f"g{n}", n % 20) for n in range(1000)]
    assert walk(service, "admin/groups/list", {}, page_size=300) == sorted(put, key=lambda one: one["id"])
