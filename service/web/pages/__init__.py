"""The few pages that people see in a browser: plain HTML, one style sheet, no scripts."""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

STYLE = Path(__file__).parent / "pages.css"
STYLE_PATH = "/pages/pages.css"
# Changes with the file, so that a browser that kept an older one asks again.
STYLE_VERSION = hashlib.sha256(STYLE.read_bytes()).hexdigest()[:12]

# What a browser may keep for ever, because its address changes with its contents.
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
    """Give the style sheet."""
    return FileResponse(STYLE, media_type="text/css", headers=IMMUTABLE)


def page(
    template: str,
    *,
    depth: int,
    status: int = 200,
    leads_to: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """Render a page that lies `depth` folders below the root, whose addresses are all relative to it.

    `leads_to` are addresses of others that its forms may lead to by a redirect.
    """
    style_address = "../" * depth + STYLE_PATH.lstrip("/") + f"?v={STYLE_VERSION}"
    html = _environment.get_template(template).render(style=style_address, **values)
    return HTMLResponse(html, status_code=status, headers={**_protection(leads_to), **(headers or {})})


def _protection(leads_to: Collection[str]) -> dict[str, str]:
    targets = " ".join(["'self'", *sorted({source for address in leads_to for source in _sources(address)})])
    policy = f"default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action {targets}"
    # `same-origin` and not less: with `no-referrer` a browser also sends forms without saying where from.
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
    }


def _sources(address: str) -> tuple[str, ...]:
    """Return the sources for a policy's `form-action`, besides the service itself, of a form that ends at an address.

    Browsers check every further redirect too, and an application redirects to wherever it likes: by https, or on this
    machine. An IPv6 host can't be named in a policy, so it stands for any.
    """
    parts = urlsplit(address)
    if parts.scheme == "https":
        return ("https:",)
    return ("https:", "http:") if "[" in parts.netloc else ("https:", "http://127.0.0.1:*", "http://localhost:*")
