"""GET /docs: the API's description as a page, by Swagger UI, pinned as a package; nothing comes from other hosts."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse

from service.web.pages import IMMUTABLE

PACKAGE = "fastapi_offline"
VERSION = version(PACKAGE)
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
# Swagger UI shows pictures that are written out in its style sheet.
PROTECTION = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
PAGE = Path(__file__).with_name("reference.html").read_text("utf-8").replace("{VERSION}", VERSION)
START = Path(__file__).with_name("reference.js")

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def show_reference() -> HTMLResponse:
    """Show the reference of the API."""
    return HTMLResponse(PAGE, headers=PROTECTION)


@router.get("/docs/start.js")
async def start_reference() -> FileResponse:
    """Give the script that shows the description."""
    return FileResponse(START, media_type="text/javascript")


def _asset(name: str, media_type: str) -> None:
    path = str(files(PACKAGE) / "static" / name)

    async def give() -> FileResponse:
        return FileResponse(path, media_type=media_type, headers=IMMUTABLE)

    router.add_api_route(f"/docs/{name}", give, methods=["GET"], name=name)


for _name, _media_type in ASSETS.items():
    _asset(_name, _media_type)
