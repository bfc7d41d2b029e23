"""Ids and credentials: spellings, digests, and bytes as text without padding."""

import re
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from service.permissions.access import Access
from service.platform import identifiers, secrets
from service.platform.base64url import decode, encode


@pytest.mark.parametrize("prefix", secrets.PREFIXES)
def test_a_minted_value_has_its_prefix_at_least_160_random_bits_and_a_matching_checksum(prefix: secrets.Prefix) -> None:
    value = secrets.mint(prefix).value.get_secret_value()
    assert re.fullmatch(re.escape(prefix) + "[0-9A-Za-z]{38}", value)
    assert secrets.checksum_matches(value)
    assert len({secrets.mint(prefix).hash for _ in range(200)}) == 200


def test_a_mistyped_shortened_or_swapped_value_is_noticed() -> None:
    value = secrets.mint(secrets.API_KEY).value.get_secret_value()
    mistyped = [value[:n] + ("a" if right != "a" else "b") + value[n + 1 :] for n, right in enumerate(value)]
    shortened = [value[:length] for length in range(len(value))]
    n = next(n for n in range(8, 38) if value[n] != value[n + 1])
    swapped = value[:n] + value[n + 1] + value[n] + value[n + 2 :]
    assert [wrong for wrong in (*mistyped, *shortened, swapped) if secrets.checksum_matches(wrong)] == []


def test_a_secret_shows_its_value_neither_in_repr_nor_in_what_is_kept() -> None:
    secret = secrets.mint(secrets.API_KEY)
    value = secret.value.get_secret_value()
    assert value not in repr(secret)
    assert secret.hash == secrets.hash_secret(value)
    assert len(secret.hash) == 32
    assert secret.hint == value[-4:]


@pytest.mark.parametrize(
    "value",
    ["svc_key_" + "x" * 31, "x" * 60, "svc_sa_" + "x" * 40, "svc_key_" + "x" * 32 + " y", "svc_key_" + "é" * 40],
)
def test_a_given_api_key_needs_its_prefix_and_32_further_characters(value: str) -> None:
    """Other keys could not be sent, or could be guessed; the message doesn't repeat the key."""
    with pytest.raises(ValueError, match="svc_key_") as caught:
        secrets.accept_api_key(SecretStr(value))
    assert value not in str(caught.value)
    # No checksum is asked of a value that the operator chose.
    chosen = "svc_key_" + "k" * 32
    assert secrets.accept_api_key(SecretStr(chosen)).hash == secrets.hash_secret(chosen)


@given(st.binary(max_size=100))
def test_what_is_written_is_read(content: bytes) -> None:
    text = encode(content)
    assert decode(text) == content
    assert all(char.isascii() and (char.isalnum() or char in "-_") for char in text)


@pytest.mark.parametrize("text", ["AA==", "AB", "A", "A+", "A/", "AA A", "AA\n", "é", "AA=A"])
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not "):
        decode(text)


def test_uuid7_is_one_and_sorts_by_the_time_it_was_made(monkeypatch) -> None:
    made: list[UUID] = []
    for millisecond in (1, 2, 1_763_000_000_000, 2**48 - 1):
        monkeypatch.setattr(identifiers.time, "time_ns", lambda now=millisecond: now * 1_000_000)
        made += [identifiers.uuid7() for _ in range(50)]
        assert {one.int >> 80 for one in made[-50:]} == {millisecond}
    assert {(one.version, one.variant) for one in made} == {(7, "specified in RFC 4122")}
    assert len(set(made)) == len(made)


def test_a_document_id_is_the_same_for_the_same_name_in_the_same_organization_only() -> None:
    """An upload needs no look-up, and two organizations never share an id."""
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
