"""Ids, and digests of who has access."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from service.permissions.access import Access
from service.platform import identifiers


def test_uuid7_is_one_and_sorts_by_the_time_it_was_made(monkeypatch) -> None:
    made: list[UUID] = []
    for millisecond in (1, 2, 1_763_000_000_000, 2**48 - 1):
        monkeypatch.setattr(identifiers.time, "time_ns", lambda now=millisecond: now * 1_000_000)
        made += [identifiers.uuid7() for _ in range(50)]
        assert {one.int >> 80 for one in made[-50:]} == {millisecond}
    assert {(one.version, one.variant) for one in made} == {(7, "specified in RFC 4122")}
    assert len(set(made)) == len(made)


def test_a_document_id_is_the_same_for_the_same_name_in_the_same_organization_only() -> None:
    """So that an upload needs no look-up, and two organizations never meet."""
    one, other = uuid4(), uuid4()
    assert identifiers.document_id_for(one, "a") == identifiers.document_id_for(one, "a")
    assert identifiers.document_id_for(one, "a") != identifiers.document_id_for(one, "b")
    assert identifiers.document_id_for(one, "a") != identifiers.document_id_for(other, "a")


def test_a_moment_lies_between_the_ids_made_before_it_and_since() -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    bound = identifiers.first_uuid7_at(moment)
    assert (bound.version, bound.int >> 80) == (7, milliseconds)
    before, since = (
        UUID(int=at << 80 | rest) for at, rest in ((milliseconds - 1, 2**80 - 1), (milliseconds, 7 << 76 | 2 << 62))
    )
    assert before < bound <= since
    assert identifiers.first_uuid7_at(datetime(1900, 1, 1, tzinfo=UTC)) < bound


def test_two_accesses_have_one_digest_exactly_when_they_are_equal() -> None:
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
