"""GET /docs: the API's description as a page, by Swagger UI, pinned as a package; nothing comes from other hosts."""

from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response

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
PAGE = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Carrel: API reference</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css?v={VERSION}">
</head>
<body>
<main id="reference"></main>
<noscript>This page needs JavaScript. The description itself is at <a href="openapi.json">openapi.json</a>.</noscript>
<script src="docs/swagger-ui-bundle.js?v={VERSION}"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# Without `validatorUrl` Swagger UI would have another host judge the description.
START = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  filter: true,
  validatorUrl: null
});
"""

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def show_reference() -> HTMLResponse:
    """Show the reference of the API."""
    return HTMLResponse(PAGE, headers=PROTECTION)


@router.get("/docs/start.js")
async def start_reference() -> Response:
    """Give the script that shows the description."""
    return Response(START, media_type="text/javascript")


def _asset(name: str, media_type: str) -> None:
    path = str(files(PACKAGE) / "static" / name)

    async def give() -> FileResponse:
        return FileResponse(path, media_type=media_type, headers=IMMUTABLE)

    router.add_api_route(f"/docs/{name}", give, methods=["GET"], name=name)


for _name, _media_type in ASSETS.items():
    _asset(_name, _media_type)
