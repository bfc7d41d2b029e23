"""Proxies and certificate authorities from the environment, for requests to one address."""

import ipaddress
import os
import ssl
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import getproxies

import certifi
import httpx
import truststore

from carrel.errors import ConfigurationError

_SCHEMES = {"http": "http", "https": "https", "socks": "socks5", "socks5": "socks5", "socks5h": "socks5h"}


def http_options(base_url: str) -> dict[str, Any]:
    """Return httpx's options for an address. Raises ConfigurationError naming a wrong variable. The variables for
    proxies are ignored for this machine, and those for certificates for plain HTTP."""
    url = httpx.URL(base_url)
    return {"proxy": proxy_for(url)[1], "verify": _certificates_for(url), "trust_env": False}


def proxy_for(url: httpx.URL) -> tuple[str, httpx.Proxy | None]:
    """Return the variable that sets an address's proxy, and the proxy; or "" and None. ConfigurationError if bad."""
    found = getproxies()
    kind = url.scheme if found.get(url.scheme) else "all"
    address = found.get(kind, "").strip()
    if not address or _needs_no_proxy(url, found.get("no", "")):
        return "", None
    name = next((name for name in os.environ if name.lower() == f"{kind}_proxy"), f"the system's {kind} proxy")
    scheme, separator, rest = address.rpartition("://")
    try:
        proxy = httpx.Proxy(f"{_SCHEMES[scheme.lower()] if separator else 'http'}://{rest}")
    except (KeyError, ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or not proxy.url.host:
        msg = f"{name} is not a proxy's address: set it to http://host:port, https://… or socks5://…, or unset it"
        raise ConfigurationError(msg)
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        msg = f"{name} is a SOCKS proxy, which needs another package: pip install 'httpx[socks]', or unset {name}"
        raise ConfigurationError(msg)
    return name, proxy


def _needs_no_proxy(url: httpx.URL, exceptions: str) -> bool:
    """Return whether a host is the local machine, or NO_PROXY names the host, its domain or its network."""
    host, port = url.host.rstrip("."), url.port or (443 if url.scheme == "https" else 80)
    address = None
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in exceptions.lower().replace(",", " ").split():
        name = entry.rpartition("://")[2].removesuffix(f":{port}" if "::" not in entry or "]:" in entry else "")
        with suppress(ValueError):
            if address and address in ipaddress.ip_network(name.replace("[", "").replace("]", ""), strict=False):
                return True
        domain = name.lstrip("*").strip(".")
        if name == "*" or (domain and f".{host}".endswith(f".{domain}")):
            return True
    return False


def _certificates_for(url: httpx.URL) -> ssl.SSLContext:
    """Return a context that trusts the system's authorities and certifi's, or only authorities set by variables."""
    system = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if url.scheme != "https":
        return system
    openssl = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    names = openssl or [name for name in ("REQUESTS_CA_BUNDLE",) if os.environ.get(name)]
    if not names:
        system.load_verify_locations(certifi.where())
        return system
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names:
        _load(context, name, os.environ[name])
    return context


def _load(context: ssl.SSLContext, name: str, value: str) -> None:
    """Add the certificates in a file, or in all files of a folder. Raises ConfigurationError if none is found."""
    loaded = False
    for place in map(Path, value.split(os.pathsep) if name == "SSL_CERT_DIR" else [value]):
        with suppress(OSError):
            for file in place.iterdir() if place.is_dir() else [place]:
                with suppress(OSError):
                    context.load_verify_locations(file)
                    loaded = True
    if not loaded:
        raise ConfigurationError(
            f"{name} has no readable certificates ({value}): set it to your authority's certificate file, or unset it"
        )
