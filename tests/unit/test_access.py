"""Access as a value."""

from uuid import uuid4

from service.permissions.access import Access


def test_two_accesses_have_one_digest_exactly_when_they_are_equal() -> None:
    """Who and in which role both count; the order in which they were named doesn't."""
    one, other = uuid4(), uuid4()
    different = [
        Access(owner_id=None),
        Access(owner_id=one),
        Access(owner_id=None, viewers=frozenset({one})),
        Access(owner_id=None, editors=frozenset({one})),
        Access(owner_id=None, viewers=frozenset({one, other})),
        Access(owner_id=None, viewers=frozenset({one}), editors=frozenset({other})),
        Access(owner_id=one, viewers=frozenset({one})),
    ]
    assert len({access.digest() for access in different}) == len(different)
    many = [uuid4() for _ in range(200)]
    assert Access(None, frozenset(many)).digest() == Access(None, frozenset(reversed(many))).digest()
