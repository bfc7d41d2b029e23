"""The few browser pages: plain HTML and a style sheet; a script only for passkeys."""

import hashlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

STYLE = Path(__file__).parent / "pages.css"
SCRIPT = Path(__file__).parent / "passkeys.js"
STYLE_PATH, SCRIPT_PATH = f"/pages/{STYLE.name}", f"/pages/{SCRIPT.name}"

# Browsers may cache these files for ever, because their addresses change with their contents.
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}

_environment = Environment(
    loader=PackageLoader("service.web.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

router = APIRouter(include_in_schema=False)


@router.get(STYLE_PATH)
async def style() -> FileResponse:
    return FileResponse(STYLE, media_type="text/css", headers=IMMUTABLE)


@router.get(SCRIPT_PATH)
async def script() -> FileResponse:
    """Return the script for asking the browser for passkeys."""
    return FileResponse(SCRIPT, media_type="text/javascript", headers=IMMUTABLE)


def page(
    template: str,
    *,
    depth: int,
    status: int = 200,
    leads_to: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    asked: str | None = None,
    **values: object,
) -> HTMLResponse:
    """Render a page `depth` folders below the root. Forms may redirect to `leads_to`; `asked` is for passkeys."""
    values |= {"style": _address_of(STYLE, depth=depth), "script": asked and _address_of(SCRIPT, depth=depth)}
    html = _environment.get_template(template).render(asked=asked, **values)
    protection = _protecting_headers(leads_to, has_script=asked is not None)
    return HTMLResponse(html, status_code=status, headers={**protection, **(headers or {})})


@cache
def _address_of(file: Path, *, depth: int) -> str:
    """Return the address of a file; changed contents change the address, so browsers ask again."""
    version = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return "../" * depth + f"pages/{file.name}?v={version}"


def _protecting_headers(leads_to: Collection[str], *, has_script: bool) -> dict[str, str]:
    scripts = " script-src 'self';" if has_script else ""
    targets = " ".join(["'self'", *sorted({source for address in leads_to for source in _sources(address)})])
    policy = (
        f"default-src 'none'; style-src 'self';{scripts} base-uri 'none'; frame-ancestors 'none'; form-action {targets}"
    )
    # `same-origin` is needed: with `no-referrer`, a browser also sends forms without an origin.
    return {"Content-Security-Policy": policy, "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin"}


def _sources(address: str) -> tuple[str, ...]:
    """Return sources for `form-action` of a form that redirects to an address, because browsers check redirects too.
    Allows every https host and, for an http address, this machine. A source can't name an IPv6 host, so an http address
    with an IPv6 host allows every http host."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return ("https:",)
    return ("https:", "http:") if "[" in parts.netloc else ("https:", "http://127.0.0.1:*", "http://localhost:*")
