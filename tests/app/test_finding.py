"""Finding people and things on the real service: who an address names is found however many are called alike."""

from app.lookup import MOST, find_principals, principal_at


def test_who_an_address_names_is_found_among_many_alike(house) -> None:
    """Not only among the first that the service tells of; by typing one more than is shown tells of others."""
    address = "na@example.test"
    house.add_people(address, *(f"{number:02}an{address}" for number in range(MOST + 10)))
    found = principal_at(house.client, f"user:{address}")
    assert found is not None
    assert (found.id, found.name) == (address, "Na")
    assert principal_at(house.client, f"user:x{address}") is None
    assert len(find_principals(house.client, address)) == MOST + 1
