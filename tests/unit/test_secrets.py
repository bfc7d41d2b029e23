"""Credentials' values."""

import re

import pytest
from pydantic import SecretStr

from service.platform import secrets


@pytest.mark.parametrize("prefix", secrets.PREFIXES)
def test_a_minted_value_has_its_prefix_at_least_160_random_bits_and_a_matching_checksum(prefix: secrets.Prefix) -> None:
    """32 characters of 62 are 190 bits; the checksum over prefix and body matches."""
    value = secrets.mint(prefix).value.get_secret_value()
    assert re.fullmatch(re.escape(prefix) + "[0-9A-Za-z]{38}", value)
    assert secrets.checksum_matches(value)


def test_a_thousand_minted_values_are_all_different() -> None:
    """Randomness is drawn for each value anew."""
    assert len({secrets.mint(secrets.API_KEY).hash for _ in range(1000)}) == 1000


def test_any_single_mistyped_character_is_noticed() -> None:
    """CRC-32 finds every change of one character, wherever it is."""
    value = secrets.mint(secrets.API_KEY).value.get_secret_value()
    for place, right in enumerate(value):
        wrong = "a" if right != "a" else "b"
        assert not secrets.checksum_matches(value[:place] + wrong + value[place + 1 :])


def test_a_shortened_or_swapped_value_is_noticed() -> None:
    """A value cut off, or with two neighbours swapped, does not match."""
    value = secrets.mint(secrets.API_KEY).value.get_secret_value()
    assert not any(secrets.checksum_matches(value[:length]) for length in range(len(value)))
    place = next(place for place in range(8, 38) if value[place] != value[place + 1])
    swapped = value[:place] + value[place + 1] + value[place] + value[place + 2 :]
    assert not secrets.checksum_matches(swapped)


def test_a_secret_shows_its_value_neither_in_repr_nor_in_what_is_kept() -> None:
    """What is kept is the SHA-256 and the last four characters."""
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
    """Anything else could not be sent, or be guessed; the message doesn't repeat it."""
    with pytest.raises(ValueError, match="svc_key_") as caught:
        secrets.accept_api_key(SecretStr(value))
    assert value not in str(caught.value)


def test_a_given_api_key_is_taken_exactly_as_it_is() -> None:
    """No checksum is asked of a value the operator chose."""
    value = "svc_key_" + "k" * 32
    assert secrets.accept_api_key(SecretStr(value)).hash == secrets.hash_secret(value)
