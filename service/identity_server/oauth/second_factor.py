"""The second step of a sign-in by password: give a second factor, or set up a factor if the organization demands it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request, Response
from markupsafe import Markup

from service.identity_server.signin.attempts import Refused
from service.identity_server.signin.factors import pending as rules
from service.identity_server.signin.factors import service
from service.identity_server.signin.factors.codes import Enrolment, draw_qr_code
from service.identity_server.signin.factors.passkeys import Ceremony, RelyingParty, new_passkey_purpose
from service.identity_server.signin.factors.pending import Pending, find_pending
from service.identity_server.signin.factors.queries import Factor
from service.identity_server.signin.queries import Person
from service.identity_server.signin.sessions import Browser, Visitor
from service.web.pages import page
from service.web.pages.routing import depth_of, lead_to

ACTIONS = frozenset({"secondFactor", "passkey", "addApp", "showPasskey", "addPasskey", "abandon"})
STALE = Refused(service.STALE, 403)
MOST_OF_NAME = 100
NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Step:
    """A sign-in's second step: the forms' relative `action`, next page `done`, and external redirects (`leads_to`)."""

    visitor: Visitor
    action: str
    done: str
    leads_to: Collection[str] = ()

    async def show(self, pending: Pending, refused: Refused | None = None, *, now: datetime | None = None) -> Response:
        """Ask for the second factor, or show how to set up a factor. Pass `now` from within a transaction."""
        if now is None:
            async with self.visitor.runtime.database.transaction(pending.organization_id) as connection:
                now = await self.visitor.runtime.clock.now(connection)
        if not pending.factors.factors:
            return self.show_new_app(
                pending.person,
                Enrolment.begin(now=now),
                refused,
                organization_name=pending.organization_name,
                pending=pending,
            )
        ceremony = Ceremony(self.visitor, pending.purpose)
        return form_page(
            "second_factor.html",
            self.visitor.request,
            refused,
            leads_to=self.leads_to,
            pending=pending,
            asked=ceremony.ask(now=now, factors=passkeys) if (passkeys := pending.factors.passkeys) else None,
            action=self.action,
            csrf=self.visitor.form_token(pending.purpose),
        )

    def show_new_app(
        self,
        person: Person,
        enrolment: Enrolment,
        refused: Refused | None,
        *,
        organization_name: str,
        pending: Pending | None = None,
    ) -> Response:
        """Show how to set up an app; `pending` is set if the organization demands it."""
        secret = enrolment.secret(self.visitor)
        # The library escapes all characters that it writes here.
        picture = Markup(draw_qr_code(secret, email=person.email, organization_name=organization_name))  # noqa: S704
        value = secret.get_secret_value()
        return form_page(
            "new_factor.html",
            self.visitor.request,
            refused,
            leads_to=self.leads_to,
            organization=organization_name,
            is_demanded=pending is not None,
            takes_passkeys=RelyingParty.of(self.visitor.runtime.settings) is not None,
            picture=picture,
            secret=" ".join(value[place : place + 4] for place in range(0, len(value), 4)),
            action=self.action,
            csrf=self.visitor.form_token(enrolment.purpose(person.principal_id)),
            abandon_csrf=self.visitor.form_token(pending.purpose) if pending else "",
            enrolment=enrolment,
        )

    def show_new_passkey(
        self,
        person: Person,
        factors: Sequence[Factor],
        refused: Refused | None = None,
        *,
        organization_name: str,
        csrf: str,
        now: datetime,
        is_demanded: bool = False,
    ) -> Response:
        ceremony = Ceremony(self.visitor, new_passkey_purpose(person.principal_id))
        party = ceremony.party
        return form_page(
            "new_passkey.html",
            self.visitor.request,
            refused,
            leads_to=self.leads_to,
            organization=organization_name,
            is_demanded=is_demanded,
            asked=ceremony.ask_for_new(person, factors, now=now),
            origin=party and party.origin,
            action=self.action,
            csrf=csrf,
        )

    async def take(self, form: dict[str, str]) -> Response | None:
        """Handle a form of any page of the step: continue or ask again; None if no sign-in is pending."""
        async with self.visitor.runtime.database.transaction(None) as connection:
            now = await self.visitor.runtime.clock.now(connection)
            pending = await find_pending(connection, self.visitor.browser, now=now)
        if pending is None:
            return None
        if form.get("action") == "addApp":
            return await self._take_app(pending, form, now=now)
        if not self.visitor.is_own_form(form, pending.purpose):
            return await self.show(pending, STALE)
        match form.get("action"):
            case "abandon":
                await rules.abandon(self.visitor)
                return lead_to(self.done)
            case "showPasskey" | "addPasskey":
                return await self._take_passkey(pending, form, now=now)
            case _:
                return await self._take_proof(pending, form)

    async def _take_proof(self, pending: Pending, form: dict[str, str]) -> Response:
        if form.get("action") == "passkey":
            outcome = await rules.give_passkey(self.visitor, answer=form.get("credential", ""))
        else:
            outcome = await rules.give_code(self.visitor, code=form.get("code", ""))
        if isinstance(outcome, Refused):
            return await self.show(pending, outcome)
        return outcome.keep(lead_to(self.done))

    async def _take_app(self, pending: Pending, form: dict[str, str], *, now: datetime) -> Response:
        enrolment = Enrolment(form.get("nonce", ""), form.get("until", ""))
        principal_id = pending.person.principal_id
        if not enrolment.is_own(self.visitor, form, principal_id=principal_id, now=now):
            return await self.show(pending, STALE)
        secret = enrolment.secret(self.visitor)
        outcome = await rules.set_up_app(self.visitor, secret=secret, code=form.get("code", ""))
        if isinstance(outcome, Refused):
            # Keep the secret, because the app already has it.
            name = pending.organization_name
            return self.show_new_app(pending.person, enrolment, outcome, organization_name=name, pending=pending)
        return self._signed_in(*outcome)

    async def _take_passkey(self, pending: Pending, form: dict[str, str], *, now: datetime) -> Response:
        refused = None
        if pending.factors.factors:
            return await self.show(pending, STALE)
        if form.get("action") == "addPasskey":
            answer = form.get("credential", "")
            outcome = await rules.set_up_passkey(self.visitor, answer=answer, name=passkey_name_of(form))
            if not isinstance(outcome, Refused):
                return self._signed_in(*outcome)
            refused = outcome
        return self.show_new_passkey(
            pending.person,
            pending.factors.factors,
            refused,
            organization_name=pending.organization_name,
            csrf=self.visitor.form_token(pending.purpose),
            now=now,
            is_demanded=True,
        )

    def _signed_in(self, browser: Browser, recovery_codes: Collection[str]) -> Response:
        return browser.keep(show_recovery_codes(self.visitor.request, recovery_codes, following=self.done))


def form_page(
    template: str,
    request: Request,
    refused: Refused | None,
    *,
    headers: Mapping[str, str] = NO_STORE,
    leads_to: Collection[str] = (),
    asked: str | None = None,
    **values: object,
) -> Response:
    """Render a form. For a refused form it shows the reason, and records the refusal after the answer."""
    response = page(
        template,
        depth=depth_of(request),
        status=refused.status if refused else 200,
        leads_to=leads_to,
        headers={**headers, **(refused.headers if refused else {})},
        asked=asked,
        notice=refused.notice if refused else None,
        **values,
    )
    response.background = refused.afterwards if refused else None
    return response


def passkey_name_of(form: dict[str, str]) -> str:
    return "".join(item for item in form.get("name", "") if item.isprintable()).strip()[:MOST_OF_NAME] or "Passkey"


def show_recovery_codes(request: Request, recovery_codes: Collection[str], *, following: str) -> Response:
    """Show recovery codes, once, then continue to the address `following`; without codes, redirect there at once."""
    if not recovery_codes:
        return lead_to(following)
    return page("recovery_codes.html", depth=depth_of(request), headers=NO_STORE, codes=recovery_codes, next=following)
