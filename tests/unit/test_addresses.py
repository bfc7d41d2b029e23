"""Web addresses: what is this machine's, and what only looks so."""

import pytest
from pydantic import TypeAdapter, ValidationError

from carrel.wire.oauth_clients import RedirectUri
from service.platform.networks import is_confidential, without_local_port

REDIRECT_URI: TypeAdapter[str] = TypeAdapter(RedirectUri)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_an_address_of_this_machine_loses_its_port(host: str) -> None:
    for port in ("", ":49152"):
        address = f"http://{host}{port}/callback?a=1"
        assert without_local_port(address) == f"http://{host}/callback?a=1"
        assert REDIRECT_URI.validate_python(address) == address


@pytest.mark.parametrize("host", ["[::1].evil.test", "evil.test[::1]", "[::1]evil.test:80", "127.0.0.1.evil.test"])
def test_an_address_of_elsewhere_is_never_taken_for_this_machine(host: str) -> None:
    """Whatever Python's `hostname` says of it: people would be sent there with a code."""
    address = f"http://{host}/callback"
    assert (without_local_port(address), is_confidential(address)) == (None, False)
    with pytest.raises(ValidationError):
        REDIRECT_URI.validate_python(address)
