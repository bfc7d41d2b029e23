"""Web addresses: parsing, and whether what is sent to one stays confidential."""

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from carrel.wire.oauth_clients import IN_BRACKETS, LOOPBACK


def parts_of(address: str) -> SplitResult | None:
    """Split an absolute http or https address into its parts; None for any other text. Accepted is printable ASCII
    without spaces, with a host and, if any, a valid port, and neither user, password nor fragment."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return None
    odd = not address.isascii() or not address.isprintable() or any(char in address for char in ' "<>\\^`{|}#')
    # Python takes what stands in brackets for the host, whatever stands next to them; browsers don't.
    odd = odd or "@" in parts.netloc or ("[" in parts.netloc and not IN_BRACKETS.fullmatch(parts.netloc))
    return parts if parts.scheme in {"http", "https"} and host and not odd else None


def is_confidential(address: str) -> bool:
    """Return whether data sent to an address stays secret on its way: by https, or by http within this machine."""
    parts = parts_of(address)
    return parts is not None and (parts.scheme == "https" or parts.hostname in LOOPBACK)


def without_local_port(address: str) -> str | None:
    """Return an http address of this machine without its port; None for any other address."""
    parts = parts_of(address)
    if parts is None or parts.scheme != "http" or parts.hostname not in LOOPBACK:
        return None
    return parts._replace(netloc=f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname).geturl()


def name_loopback(address: str) -> str:
    """Return an http address of this machine with `localhost` in place of its IP, where browsers allow passkeys
    (WebAuthn, section 5.1.3); any other address as it is. An address with a path is a proxy's, and stays."""
    parts = parts_of(address)
    if parts is None or parts.scheme != "http" or parts.path or parts.hostname not in LOOPBACK:
        return address
    return f"http://localhost:{parts.port}" if parts.port else "http://localhost"


def is_redis(url: str) -> bool:
    """Return whether an address is a Redis database, whose number may be its path."""
    try:
        parsed = urlsplit(url)
        return (
            parsed.scheme in {"redis", "rediss"}
            and bool(parsed.hostname)
            and parsed.port != 0
            and not parsed.fragment
            and not parsed.query
            and (parsed.path in {"", "/"} or parsed.path.removeprefix("/").isdecimal())
        )
    except ValueError:  # a port that is none, or half an IPv6 address
        return False


def is_mail_server(url: str) -> bool:
    """Return whether an address is a mail server: smtp or smtps, a host, and nothing after its port."""
    try:
        parsed = urlsplit(url)
        plain = not (parsed.path.strip("/") or parsed.query or parsed.fragment)
        return parsed.scheme in {"smtp", "smtps"} and bool(parsed.hostname) and parsed.port != 0 and plain
    except ValueError:  # as above
        return False


def overlap(one: str, other: str) -> bool:
    """Return whether two addresses of objects (file:, s3:, gs:, az:) are one place, or one lies within the other."""
    return all(part == its for part, its in zip(_place(one), _place(other), strict=False))


def _place(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme == "file":
        return ("file", *Path(path).resolve().parts)
    return (parts.scheme, parts.netloc, *filter(None, path.split("/")))
