"""Web addresses: loopback and lookalikes, and allowed targets of a sync."""

import asyncio
import ipaddress
import socket

import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from carrel.wire.oauth_clients import RedirectUri
from service.domains.documents.docstore.asking import Egress
from service.domains.documents.docstore.uris import check_uri, connection_parts, words_of
from service.platform.errors import BadRequest
from service.platform.networks import AddressDenied, AllowedHosts, is_confidential, without_local_port
from tests.harness.cases import cases

NOBODY = AllowedHosts()
DENIED = [
    # Private, local, shared, reserved and multicast addresses.
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1"),
    *("255.255.255.255", "192.0.2.1", "192.0.0.8", "240.0.0.1", "::1", "::", "fe80::1", "fd00::1", "ff02::1"),
    *("fec0::1", "5f00::1"),
    # IPv6 addresses that stand for private IPv4 addresses.
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "::ffff:0:a00:1", "::127.0.0.1"),
    "2002:a00:1::",
]
PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"]


@pytest.mark.parametrize("address", [*DENIED, *PUBLIC])
def test_what_is_not_public_is_denied(address: str) -> None:
    assert NOBODY.allows(ipaddress.ip_address(address)) == (address in PUBLIC)


def test_a_setting_allows_networks_and_names_alone() -> None:
    allowed = AllowedHosts.of(["10.0.0.0/8", "[fd00::1]", "mongo.internal"])
    asked = ("10.9.9.9", "::ffff:10.9.9.9", "fd00::1", "fd00::2", "192.168.0.1")
    assert [allowed.allows(ipaddress.ip_address(each)) for each in asked] == [True, True, True, False, False]
    assert allowed.names == {"mongo.internal"}


def test_an_allowed_name_allows_the_addresses_it_has() -> None:
    allowed = AllowedHosts.of(["localhost", "nobody.invalid"]).resolve()
    assert allowed.allows(ipaddress.ip_address("127.0.0.1"))
    assert not allowed.allows(ipaddress.ip_address("127.0.0.2"))


async def test_every_connection_of_a_context_is_judged() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        egress = Egress(NOBODY)

        async def connect() -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()

        with egress.enforce():
            with pytest.raises(AddressDenied):
                await connect()
            with pytest.raises(AddressDenied):
                await asyncio.create_task(connect())
            with socket.socket(socket.AF_UNIX) as unix, pytest.raises(AddressDenied):
                unix.connect("/tmp/nothing.sock")  # noqa: S108 - it is never connected to
        assert egress.denied
        await connect()
        with Egress(AllowedHosts.of(["127.0.0.1"])).enforce():
            await connect()


@pytest.mark.parametrize("uri", cases("addresses_of_databases"))
def test_addresses_that_are_taken(uri: str) -> None:
    check_uri(SecretStr(uri), NOBODY)


@pytest.mark.parametrize("uri", cases("addresses_of_databases_that_are_refused"))
def test_addresses_that_are_not_taken(uri: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_uri(SecretStr(uri), NOBODY)
    assert caught.value.code == "invalid_docstore_uri"
    assert not [word for word in ("example.com", "p@ss", "passwd", "10.0.0.1") if word in str(caught.value)]


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "10.0.0.8:27018", "[::ffff:10.0.0.1]", "a.localhost"]
)
def test_hosts_that_are_plainly_private_are_refused_at_once(host: str) -> None:
    for uri in (f"mongodb://{host}/shop", f"mongodb://mongo.example.com,{host}/shop"):
        with pytest.raises(BadRequest) as caught:
            check_uri(SecretStr(uri), NOBODY)
        assert caught.value.code == "docstore_host_not_allowed"
    check_uri(SecretStr("mongodb://localhost/shop"), AllowedHosts.of(["localhost"]))
    check_uri(SecretStr("mongodb://10.0.0.8/shop"), AllowedHosts.of(["10.0.0.0/24"]))


async def test_what_a_driver_is_given() -> None:
    uri = SecretStr("mongodb://reader:p%40ss@mongo.example.com/shop?authSource=admin&maxIdleTimeMS=5")
    with pytest.raises(BadRequest):
        check_uri(uri, NOBODY)
    uri = SecretStr("mongodb://reader:p%40ss@mongo.example.com/shop?authSource=admin&socketTimeoutMS=5&w=1")
    parts = await connection_parts(uri, seconds=1)
    assert (parts.hosts, parts.database) == ((("mongo.example.com", 27017),), "shop")
    assert dict(parts.options) == {"authSource": "admin", "username": "reader", "password": "p@ss"}
    assert "p@ss" not in repr(parts)
    assert {"p@ss", "reader", "mongo.example.com"} <= words_of(uri, parts)


REDIRECT_URI: TypeAdapter[str] = TypeAdapter(RedirectUri)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_an_address_of_this_machine_loses_its_port(host: str) -> None:
    for port in ("", ":49152"):
        address = f"http://{host}{port}/callback?a=1"
        assert without_local_port(address) == f"http://{host}/callback?a=1"
        assert REDIRECT_URI.validate_python(address) == address


@pytest.mark.parametrize("host", ["[::1].evil.test", "evil.test[::1]", "[::1]evil.test:80", "127.0.0.1.evil.test"])
def test_an_address_of_elsewhere_is_never_taken_for_this_machine(host: str) -> None:
    """Despite Python's `hostname`: people would be sent to a foreign host with a code."""
    address = f"http://{host}/callback"
    assert (without_local_port(address), is_confidential(address)) == (None, False)
    with pytest.raises(ValidationError):
        REDIRECT_URI.validate_python(address)
