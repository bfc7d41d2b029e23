"""A status sentence about the parts behind a page: the service, the database, or Prefect, which runs loading."""

import asyncio
from time import monotonic

import httpx

from app.settings import settings
from carrel.environment import http_options

SLOW, LONGEST = 1.0, 8.0
"""Seconds until an answer counts as slow, and until a silent part counts as stopped."""
_CONTINUES = "This page continues automatically."


async def look(seconds: float, *, needs_prefect: bool = False) -> str:
    """Return a sentence about the first part without a good answer within these seconds; empty if all are well."""
    base = settings().base_url.rstrip("/")
    asked = [f"{base}/healthz", f"{base}/readyz"]
    if needs_prefect:
        asked.append(f"{settings().prefect_api_url.rstrip('/')}/health")
    alive, ready, *others = await asyncio.gather(*(_ask(url, seconds) for url in asked))
    said = _describe_part("The service", alive, seconds) or _describe_database(ready, seconds)
    said = said or "".join(_describe_part("Prefect, which manages runs,", other, seconds) for other in others)
    return f"{said} {_CONTINUES}" if said else ""


async def _ask(url: str, seconds: float) -> tuple[httpx.Response | None, float]:
    """Return a part's response, or None after a timeout, and the seconds taken; -1 if the connection fails."""
    begun = monotonic()
    try:
        async with httpx.AsyncClient(timeout=seconds, **http_options(url)) as client:
            answer = await client.get(url)
    except httpx.TimeoutException:
        answer = None
    except httpx.HTTPError:
        return None, -1.0
    return answer, monotonic() - begun


def _describe_part(name: str, asked: tuple[httpx.Response | None, float], seconds: float) -> str:
    """Return a sentence about a part that is away, silent or slow; empty if it answered within `SLOW` seconds."""
    answer, took = asked
    if took < 0:
        return f"{name} is not reachable."
    if answer is None and seconds < LONGEST:
        return f"{name} has not answered yet. It is slow or has stopped."
    if answer is None:
        return f"{name} accepts connections but does not answer."
    return f"{name} is slow: an answer takes {took:.0f} seconds." if took >= SLOW else ""


def _describe_database(asked: tuple[httpx.Response | None, float], seconds: float) -> str:
    answer, _ = asked
    if answer is not None and answer.is_server_error:
        return f"The service runs, but its database is {'full' if answer.status_code == 507 else 'away or busy'}."
    return _describe_part("The service runs. Its database", asked, seconds)
