"""Page tokens and pages."""

from dataclasses import replace
from string import ascii_letters, digits
from uuid import UUID, uuid4

import pytest

from carrel.wire.admin import AdminUsersListRequest
from service.auth.callers import Caller
from service.platform.errors import BadRequest
from service.platform.identifiers import NIL
from service.web.pagination import Cursor

OPERATION = "admin/users/list"


def a_caller(**changes: object) -> Caller:
    principal_id = uuid4()
    caller = Caller(
        organization_id=uuid4(),
        principal_id=principal_id,
        principals=(principal_id,),
        kind="user",
        email="ada@example.test",
        name="Ada",
        is_admin=True,
        credential_id=uuid4(),
        may_act_for_users=False,
        page_key=uuid4().bytes,
    )
    return replace(caller, **changes)


def read(caller: Caller, token: str | None = None, *, operation: str = OPERATION, **query: object) -> Cursor:
    request = AdminUsersListRequest(page_token=token, **query)  # pyright: ignore[reportArgumentType]
    return Cursor.read(caller, operation=operation, request=request)


def token_of(caller: Caller, **query: object) -> str:
    return read(caller, **query).page([str(uuid4()) for _ in range(11)], position=lambda item: [item]).next_page_token


def test_a_walk_sees_every_item_once_whatever_the_page_sizes() -> None:
    caller, items, seen, token = a_caller(), sorted(uuid4() for _ in range(25)), list[UUID](), None
    for page_size in (1, 10, 3, 7, 1000):
        cursor = read(caller, token, page_size=page_size)
        rows = [item for item in items if item > cursor.after_id][: cursor.limit]
        page = cursor.page(rows, position=lambda item: [str(item)])
        seen += page.items
        token = page.next_page_token
    assert seen == items
    assert token is None


def test_the_last_page_has_no_token_even_when_it_is_full() -> None:
    cursor = read(a_caller(), page_size=3)
    assert cursor.limit == 4
    assert cursor.after_id == NIL
    assert cursor.page(["a", "b", "c"], position=lambda item: [item]).next_page_token is None
    assert cursor.page(["a", "b", "c", "d"], position=lambda item: [item]).items == ["a", "b", "c"]


def test_a_token_is_refused_with_another_query_operation_caller_or_organization() -> None:
    caller = a_caller()
    token = token_of(caller, query="ada")
    assert read(caller, token, query="ada", page_size=7).after
    for stranger in [
        lambda: read(caller, token, query="bob"),
        lambda: read(caller, token),
        lambda: read(caller, token, query="ada", operation="admin/groups/list"),
        lambda: read(replace(caller, principal_id=uuid4()), token, query="ada"),
        lambda: read(replace(caller, page_key=b"another organization's"), token, query="ada"),
    ]:
        with pytest.raises(BadRequest) as caught:
            stranger()
        assert caught.value.code == "invalid_page_token"


def test_a_token_changed_anywhere_is_refused() -> None:
    caller = a_caller()
    token = token_of(caller)
    changed = [token[:place] + ("A" if right != "A" else "B") + token[place + 1 :] for place, right in enumerate(token)]
    # The last character holds bits that base64 doesn't use: all its other values are wrong, too.
    last = [token[:-1] + other for other in ascii_letters + digits + "-_" if other != token[-1]]
    for wrong in [*changed, *last, token[:-1], token + "==", token + "AAAA", "", "é", "%%%", "A" * 4000]:
        with pytest.raises(BadRequest) as caught:
            Cursor.of(caller, operation=OPERATION, parameters={"query": None}, page_token=wrong)
        assert caught.value.code == "invalid_page_token"


@pytest.mark.parametrize("page_size", [0, -1, 1001])
def test_a_page_size_outside_1_to_1000_is_refused(page_size: int) -> None:
    with pytest.raises(BadRequest):
        Cursor.of(a_caller(), operation=OPERATION, parameters={}, page_size=page_size)
