"""Passwords and tokens only by https, or http within this machine (RFC 6749, sections 3.1 and 3.2). Behind a proxy the
public address decides; without https there, the requested address must be this machine's."""

from fastapi import Request

from service.platform.errors import Forbidden
from service.platform.logs import logger
from service.platform.networks import is_confidential
from service.platform.settings import Settings
from service.runtime import Runtime


def warn(settings: Settings) -> None:
    """Log, when the service starts, that people can't sign in at its public address."""
    if not is_confidential(settings.issuer):
        logger.warning(
            "https_required",
            issuer=settings.issuer,
            advice="Nobody can sign in and no client gets a token: they would be readable on the way. Set "
            "CARREL_PUBLIC_URL to an https address.",
        )


def refuse_readable(request: Request, runtime: Runtime) -> None:
    """Raise Forbidden where what is sent could be read on the way."""
    issuer = runtime.settings.issuer
    if issuer.startswith("https:"):
        return
    if not is_confidential(issuer) or not is_confidential(f"http://{request.headers.get('host', '')}"):
        raise Forbidden(
            "Passwords and tokens are taken over https alone, or on the machine that the service runs on. Tell those "
            "who run it to set CARREL_PUBLIC_URL to its https address.",
            code="https_required",
        )
