"""The few pages that are no Streamlit pages: what went wrong on the way to being signed in."""

import html

from starlette.responses import HTMLResponse

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} · Carrel</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.4rem; }} p {{ overflow-wrap: anywhere; }}
a, button {{ display: inline-block; margin-top: .5rem; padding: .5rem 1rem; border-radius: .4rem; background: #1f5f6b;
  color: #fff; text-decoration: none; border: 0; font: inherit; cursor: pointer; }}
</style></head><body><main><h1>{title}</h1><p>{message}</p>{way_on}</main></body></html>
"""


_LINK = '<a href="{again}">{doing}</a>'
_FORM = '<form method="post" action="{again}"><button>{doing}</button></form>'


def notice(
    title: str, message: str, *, again: str, status: int, doing: str = "Try again", posts: bool = False
) -> HTMLResponse:
    """Return a page with a message and one link or button; all texts are escaped.

    `posts`: the next step changes something, so it is a form's button and not a link.
    """
    way_on = (_FORM if posts else _LINK).format(again=html.escape(again), doing=html.escape(doing))
    page = _PAGE.format(title=html.escape(title), message=html.escape(message), way_on=way_on)
    return HTMLResponse(page, status, headers={"Cache-Control": "no-store"})
