"""The routes of the documentation, /help/…, for people who are signed in."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from app.auth.pages import notice
from app.auth.routes import SIGN_IN
from app.auth.sessions import Sessions
from app.documentation import HELP, ROOT, page_html, read_page

_PICTURES = ROOT / "docs" / "pages"


class Documentation:
    """The documentation's pages and pictures, for the browsers of the sessions in this cookie."""

    def __init__(self, sessions: Sessions, *, cookie: str) -> None:
        self._sessions = sessions
        self._cookie = cookie

    def routes(self) -> list[Route]:
        """Return the routes; their functions block, so each runs in a thread."""
        return [Route(HELP, self.show), Route(f"{HELP}/{{name:path}}", self.show)]

    def show(self, request: Request) -> Response:
        """Return a page or a picture of the documentation; send people to sign in who aren't signed in."""
        name: str = request.path_params.get("name", "")
        if self._sessions.find(request.cookies.get(self._cookie)) is None:
            return RedirectResponse(f"{SIGN_IN}?next={quote(f'{HELP}/{name}', safe='')}", 303)
        if name.endswith(".png"):
            return _picture(name)
        page = read_page(name)
        if page is None and name:
            said = "Its address may be mistyped, or is of another version of Carrel."
            return notice("There is no such help page", said, again=f"{HELP}/", status=404, doing="All help pages")
        return HTMLResponse(page_html(page), headers={"Cache-Control": "private, max-age=300"})


def _picture(name: str) -> Response:
    """Return a picture by its name in a listing of the folder, so that no name leads out of it."""
    pictures = {f"pages/{path.name}": path for path in _PICTURES.glob("*.png")}
    return FileResponse(pictures[name]) if name in pictures else Response(status_code=404)
