"""Passwords and tokens only by https, or http within the local machine (RFC 6749, sections 3.1 and 3.2). Behind a proxy
the public address decides; without https there, the requested address must be the local machine's."""

from fastapi import Request

from service.platform.errors import Forbidden
from service.platform.logs import logger
from service.platform.networks import is_confidential
from service.platform.settings import Settings
from service.runtime import Runtime


def warn(settings: Settings) -> None:
    """At start-up, log a warning if sign-in is impossible at the public address."""
    if not is_confidential(settings.issuer):
        logger.warning(
            "https_required",
            issuer=settings.issuer,
            advice="People can't sign in and clients get no token, because these would be readable in transit. Set "
            "CARREL_PUBLIC_URL to an https address.",
        )


def refuse_readable(request: Request, runtime: Runtime) -> None:
    """Raise Forbidden if the connection isn't confidential."""
    issuer = runtime.settings.issuer
    if issuer.startswith("https:"):
        return
    if not is_confidential(issuer) or not is_confidential(f"http://{request.headers.get('host', '')}"):
        raise Forbidden(
            "Passwords and tokens are accepted only over https, or on the service's own machine. Ask an operator to "
            "set CARREL_PUBLIC_URL to its https address.",
            code="https_required",
        )
