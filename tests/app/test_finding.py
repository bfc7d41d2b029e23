"""Finding people and things on the real service: who an address names is found however many are called alike."""

from uuid import uuid4

import pytest

from app.lookup import MOST, find_principals, principal_at
from tests.app.conftest import House


@pytest.fixture(scope="module")
def address(house: House) -> str:
    """The address of somebody, which is a part of many others' addresses."""
    address = f"na{uuid4().hex[:6]}@example.test"
    others = [{"email": f"{number:02}an{address}", "name": f"Anna {number}"} for number in range(MOST + 10)]
    house.client.admin.users.upsert([*others, {"email": address, "name": "Na"}])
    return address


def test_who_an_address_names_is_found_among_many_alike(house: House, address: str) -> None:
    """Not only among the first that the service tells of."""
    found = principal_at(house.client, f"user:{address}")
    assert found is not None
    assert (found.id, found.name) == (address, "Na")
    assert principal_at(house.client, f"user:x{address}") is None


def test_so_many_and_one_more_are_found_by_typing(house: House, address: str) -> None:
    """The one more tells that there are others."""
    assert len(find_principals(house.client, address)) == MOST + 1
