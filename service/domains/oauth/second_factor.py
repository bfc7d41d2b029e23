"""The second step of a sign-in by password: giving a second factor, or setting one up where one is demanded."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request, Response
from markupsafe import Markup

from service.domains.signin.browsers import Browser
from service.domains.signin.factors import pending as rules
from service.domains.signin.factors.codes import draw_picture
from service.domains.signin.factors.enrolment import Enrolment
from service.domains.signin.factors.pending import Pending, find_pending
from service.domains.signin.queries import Person
from service.domains.signin.refusals import Refused
from service.runtime import Runtime
from service.web.pages import page
from service.web.pages.routing import depth_of

ACTIONS = frozenset({"secondFactor", "addApp", "abandon"})
STALE = Refused("This page was out of date. Please try again.", 403)
NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Step:
    """A sign-in's second step: the browser, where its forms go (`action`), and where it leads to (`done`).

    All addresses are relative; `leads_to` are those of others that the forms may end at.
    """

    request: Request
    runtime: Runtime
    browser: Browser
    action: str
    done: str
    leads_to: Collection[str] = ()

    async def show(self, pending: Pending, refused: Refused | None = None) -> Response:
        """Ask for the second factor, or show how to set one up."""
        if not pending.factors.factors:
            async with self.runtime.database.transaction(pending.organization_id) as connection:
                enrolment = Enrolment.begin(now=await self.runtime.clock.now(connection))
            return self.show_new_app(
                pending.person, enrolment, refused, organization_name=pending.organization_name, pending=pending
            )
        response = page(
            "second_factor.html",
            depth=depth_of(self.request),
            status=refused.status if refused else 200,
            leads_to=self.leads_to,
            headers={**NO_STORE, **(refused.headers if refused else {})},
            organization=pending.organization_name,
            email=pending.person.email,
            action=self.action,
            csrf=self.browser.form_token(self.runtime, pending.purpose),
            notice=refused.notice if refused else None,
        )
        response.background = refused.afterwards if refused else None
        return response

    def show_new_app(
        self,
        person: Person,
        enrolment: Enrolment,
        refused: Refused | None,
        *,
        organization_name: str,
        pending: Pending | None = None,
    ) -> Response:
        """Show how to set up an app; with `pending` because the organization demands it."""
        secret = enrolment.secret(self.runtime, self.browser)
        # Made here of characters that the library escapes itself.
        picture = Markup(draw_picture(secret, email=person.email, organization_name=organization_name))  # noqa: S704
        value = secret.get_secret_value()
        return page(
            "new_factor.html",
            depth=depth_of(self.request),
            status=refused.status if refused else 200,
            leads_to=self.leads_to,
            headers=NO_STORE,
            organization=organization_name,
            is_demanded=pending is not None,
            picture=picture,
            secret=" ".join(value[place : place + 4] for place in range(0, len(value), 4)),
            action=self.action,
            csrf=self.browser.form_token(self.runtime, enrolment.purpose(person.principal_id)),
            abandon_csrf=self.browser.form_token(self.runtime, pending.purpose) if pending else "",
            nonce=enrolment.nonce,
            until=enrolment.until,
            notice=refused.notice if refused else None,
        )

    async def take(self, form: dict[str, str]) -> Response:
        """Take what somebody did on one of the pages, and lead on, or show the page again with the reason."""
        async with self.runtime.database.transaction(None) as connection:
            now = await self.runtime.clock.now(connection)
            pending = await find_pending(connection, self.browser, now=now)
        if pending is None:
            return self._lead_on()
        if form.get("action") == "addApp":
            return await self._take_app(pending, form, now=now)
        if not self.browser.is_own_form(self.runtime, form.get("csrf", ""), purpose=pending.purpose):
            return await self.show(pending, STALE)
        if form.get("action") == "abandon":
            await rules.abandon(self.runtime, self.browser)
            return self._lead_on()
        return await self._take_code(pending, form.get("code", ""))

    async def _take_code(self, pending: Pending, code: str) -> Response:
        address = self.request.client.host if self.request.client else "unknown"
        outcome = await rules.give_code(self.runtime, self.browser, code=code, address=address)
        if isinstance(outcome, Refused):
            return await self.show(pending, outcome)
        response = self._lead_on()
        outcome.keep(response)
        return response

    async def _take_app(self, pending: Pending, form: dict[str, str], *, now: datetime) -> Response:
        enrolment = Enrolment(form.get("nonce", ""), form.get("until", ""))
        principal_id = pending.person.principal_id
        if not enrolment.is_own(self.runtime, self.browser, form, principal_id=principal_id, now=now):
            return await self.show(pending, STALE)
        secret = enrolment.secret(self.runtime, self.browser)
        outcome = await rules.set_up_app(self.runtime, self.browser, secret=secret, code=form.get("code", ""))
        if isinstance(outcome, Refused):
            # The same secret again: the app has it already.
            name = pending.organization_name
            return self.show_new_app(pending.person, enrolment, outcome, organization_name=name, pending=pending)
        browser, recovery_codes = outcome
        response = show_recovery_codes(self.request, recovery_codes, following=self.done)
        browser.keep(response)
        return response

    def _lead_on(self) -> Response:
        return Response(status_code=303, headers={"Location": self.done})


def show_recovery_codes(request: Request, recovery_codes: Collection[str], *, following: str) -> Response:
    """Show recovery codes, this once; `following` is the address of the next page."""
    return page("recovery_codes.html", depth=depth_of(request), headers=NO_STORE, codes=recovery_codes, next=following)
