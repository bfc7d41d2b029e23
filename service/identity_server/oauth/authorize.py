"""GET and POST /api/oauth/authorize: sign-in and consent (RFC 6749, section 4.1). Each page's address is the
authorization request, so tabs are independent, Back works, and nothing is stored before sign-in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Response

from carrel.wire.oauth_clients import OAuthAudience
from carrel.wire.scopes import ApiScope
from service.audit.service import Change, record_for
from service.auth.queries import get_acting_principal
from service.auth.scopes import covers
from service.identity_server.oauth import signing_in
from service.identity_server.oauth.consented import queries as consented
from service.identity_server.oauth.consents import meanings_to
from service.identity_server.oauth.describing import describe_client
from service.identity_server.oauth.second_factor import ACTIONS
from service.identity_server.oauth.server import Answer
from service.identity_server.oauth.visits import PROMPTS_SIGN_IN, AuthorizationRequest, Visit, VisitorDep
from service.identity_server.requests import all_of, first_of, form_of
from service.identity_server.signin.attempts import Refused
from service.identity_server.signin.factors.pending import find_pending
from service.identity_server.signin.factors.service import STALE
from service.identity_server.signin.sessions import SignedIn, end_session
from service.platform.errors import BadRequest
from service.platform.identifiers import to_uuid
from service.web.pages import page
from service.web.pages.routing import PageRoute, depth_of, lead_to

# The chosen collections, and as many more on offer, fit into the largest accepted form.
MOST_CHOSEN = 1000
MOST_COLLECTIONS = 200
LONGEST_NAME = 200
NONE_CHOSEN = "Choose what the application may read: everything that you may read, or at least one collection."
BOTH_CHOSEN = "You chose everything, but collections are still selected. Choose one of the two, then press Allow again."


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection on the consent page. `contradicts`: collections and also "everything" are ticked, so ask again."""

    is_narrowed: bool
    collection_ids: Collection[UUID]
    name_contains: str = ""
    contradicts: bool = False

    @classmethod
    def of(cls, sent: Mapping[str, Sequence[str]]) -> "Choice":
        """Read the choice from a form; invalid ids are ignored."""
        given = {found for text in sent.get("collection", ()) if (found := to_uuid(text)) is not None}
        name_contains = next(iter(sent.get("find", ())), "").replace("\0", "").strip()[:LONGEST_NAME]
        reach = sent.get("reach")
        contradicts = bool(given) and reach == ["everything"]
        is_narrowed = contradicts or reach not in (["everything"], ["everything-anyway"])
        return cls(is_narrowed, given, name_contains, contradicts)


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/api/oauth/authorize")
async def authorize(visitor: VisitorDep) -> Response:
    """Ask the person to sign in and to consent. Scopes allowed earlier are not asked for again."""
    visit = Visit.of(visitor)
    if not await describe_client(visit.runtime, visit.browser, visit.parameters):
        # Several organizations: the person signs in to choose one. Then the client starts again.
        return lead_to("../../account/sign-in")
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
        if isinstance(asked, Answer):
            return visit.redirect(asked)
        return await _next_page(visit, asked)


@router.post("/api/oauth/authorize")
async def decide(visitor: VisitorDep) -> Response:
    """Take a form of a sign-in page or the consent page. Raises BadRequest for an unknown button."""
    visit, sent = Visit.of(visitor), await form_of(visitor.request)
    form = first_of(sent)
    if form.get("action") in signing_in.SIGN_INS:
        return await signing_in.submit_sign_in(visit, form)
    if form.get("action") in ACTIONS:
        return await signing_in.submit_second_factor(visit, form)
    async with visit.runtime.database.transaction(None) as connection:
        asked = await visit.open(connection)
        if isinstance(asked, Answer):
            return visit.redirect(asked)
        if asked.person is None:
            return visit.show_next()
        if not visit.is_own_form(form, visit.consent_purpose(asked.person)):
            return await _next_page(visit, asked, notice=STALE)
        return await _apply_decision(visit, asked, sent=all_of(sent), person=asked.person)


async def _next_page(visit: Visit, asked: AuthorizationRequest, *, notice: str | None = None) -> Response:
    """Show the sign-in or consent page; redirect with a code if nothing is left to allow, or with an error."""
    person, prompts = asked.person, asked.prompts
    if person is None or prompts & PROMPTS_SIGN_IN or asked.is_too_old(person):
        return await _ask_to_sign_in(visit, asked, notice=notice)
    scopes = grantable(asked.scopes, person)
    if not scopes:
        return visit.redirect(asked.refuse("access_denied", "Only an admin can allow api:admin."))
    allowed = await consented.get_consent(
        asked.connection, person.organization_id, principal_id=person.principal_id, client_id=asked.client.client_id
    )
    new = [scope for scope in scopes if not covers(allowed, scope)]
    if new and "consent" not in prompts and asked.is_workbench(visit.runtime.settings.workbench_url):
        await _save_and_record_consent(asked, person, scopes=scopes, collection_ids=None)
        new = []
    if not new and "consent" not in prompts and not asked.may_be_another_program:
        asked.grant_scopes(scopes, person)
        return visit.redirect(await asked.respond(person.principal_id))
    if "none" in prompts:
        return visit.redirect(asked.refuse("consent_required", "The person has not allowed this request."))
    return await _consent_page(visit, asked, person=person, new=new if allowed else (), notice=notice)


async def _ask_to_sign_in(visit: Visit, asked: AuthorizationRequest, *, notice: str | None) -> Response:
    if "none" in asked.prompts:
        return visit.redirect(asked.refuse("login_required", "The person is not signed in."))
    if asked.person is None and not asked.prompts & PROMPTS_SIGN_IN:
        pending = await find_pending(asked.connection, visit.browser, now=asked.now)
        if pending is not None:
            return await signing_in.second_step(visit, leads_to=[asked.redirect_uri]).show(pending, now=asked.now)
    return await signing_in.sign_in_page(visit, asked, asked.connection, Refused(notice, 200) if notice else None)


def grantable(scopes: Sequence[str], person: SignedIn) -> tuple[str, ...]:
    """Return the scopes that a person can grant: `api:admin` only if they are an admin (RFC 6749, section 3.3)."""
    return tuple(scope for scope in scopes if person.is_admin or scope != ApiScope.ADMIN)


async def _apply_decision(
    visit: Visit, asked: AuthorizationRequest, *, sent: Mapping[str, Sequence[str]], person: SignedIn
) -> Response:
    action = next(iter(sent.get("action", ())), None)
    if action == "allow":
        return await _allow(visit, asked, sent=sent, person=person)
    if action == "find":
        choice = replace(Choice.of(sent), is_narrowed=True, contradicts=False)
        notice = _too_many(len(choice.collection_ids))
        return await _consent_page(visit, asked, person=person, new=(), notice=notice, choice=choice)
    if action == "deny":
        return visit.redirect(await asked.respond(None))
    if action == "switch":
        await end_session(asked.connection, visit.browser, organization_id=person.organization_id)
        return visit.show_next()
    raise BadRequest("This form has no such button. Go back and try again.")


async def _allow(
    visit: Visit, asked: AuthorizationRequest, *, sent: Mapping[str, Sequence[str]], person: SignedIn
) -> Response:
    """Keep the consent and redirect with a code; refuse without scopes; ask again for unusable collections."""
    scopes = grantable(asked.scopes, person)
    if not scopes:
        return visit.redirect(asked.refuse("access_denied", "Only an admin can allow api:admin."))
    choice = Choice.of(sent)
    is_narrowed = asked.client.audience is OAuthAudience.MCP and choice.is_narrowed
    readable = await list_readable(asked, person, chosen=choice.collection_ids, limit=None) if is_narrowed else ()
    # If the person chose all documents, deleted collections don't matter.
    is_narrowed = is_narrowed and (bool(readable) or not choice.contradicts)
    collection_ids = [collection.collection_id for collection in readable] if is_narrowed else None
    if collection_ids is not None and (notice := _problem_with(choice, len(collection_ids))):
        return await _consent_page(visit, asked, person=person, new=(), notice=notice, choice=choice)
    await _save_and_record_consent(asked, person, scopes=scopes, collection_ids=collection_ids)
    asked.grant_scopes(scopes, person)
    return visit.redirect(await asked.respond(person.principal_id))


async def _save_and_record_consent(
    asked: AuthorizationRequest, person: SignedIn, *, scopes: Sequence[str], collection_ids: Sequence[UUID] | None
) -> None:
    await consented.put_consent(
        asked.connection,
        person.organization_id,
        principal_id=person.principal_id,
        client_id=asked.client.client_id,
        scopes=scopes,
        collection_ids=collection_ids,
        now=asked.now,
    )
    details: dict[str, object] = {"scopes": list(scopes)}
    if collection_ids is not None:
        details["collectionIds"] = sorted(map(str, collection_ids))
    change = Change("consent.grant", "oauthClient", asked.client.client_id, details)
    await record_for(asked.connection, person.organization_id, actor_id=person.principal_id, change=change)


def _problem_with(choice: Choice, count: int) -> str | None:
    if not count:
        return NONE_CHOSEN
    return BOTH_CHOSEN if choice.contradicts else _too_many(count)


def _too_many(count: int) -> str | None:
    over = count - MOST_CHOSEN
    if over <= 0:
        return None
    return (
        f"You selected {count:,} collections; the limit is {MOST_CHOSEN:,}. Deselect {over:,}, or choose everything "
        "that you may read."
    )


async def list_readable(
    asked: AuthorizationRequest,
    person: SignedIn,
    *,
    chosen: Collection[UUID],
    name_contains: str | None = None,
    limit: int | None,
) -> Sequence[consented.ReadableCollection]:
    """List collections that a person may read: the chosen ids, then by `name_contains` (None: only the chosen ids)."""
    reader = await get_acting_principal(asked.connection, person.organization_id, principal_id=person.principal_id)
    if reader is None:
        return ()
    return await consented.list_readable_collections(
        asked.connection, reader, chosen=chosen, name_contains=name_contains, limit=limit
    )


async def _consent_page(
    visit: Visit,
    asked: AuthorizationRequest,
    *,
    person: SignedIn,
    new: Sequence[str],
    notice: str | None,
    choice: Choice | None = None,
) -> Response:
    scopes = grantable(asked.scopes, person)
    meanings = await meanings_to(asked.connection, person, scopes=[(scope, asked.client.audience) for scope in scopes])
    if choice is None:
        narrowed_to = await consented.get_narrowing(
            asked.connection, person.organization_id, principal_id=person.principal_id, client_id=asked.client.client_id
        )
        choice = Choice(narrowed_to is not None, frozenset(narrowed_to or ()))
    offered, most = None, len(choice.collection_ids)
    if most <= MOST_CHOSEN:
        most += MOST_COLLECTIONS
    if asked.client.audience is OAuthAudience.MCP:
        offered = await list_readable(
            asked, person, chosen=choice.collection_ids, name_contains=choice.name_contains, limit=most + 1
        )
    return page(
        "consent.html",
        depth=depth_of(visit.request),
        status=403 if notice else 200,
        leads_to=[asked.redirect_uri],
        person=person,
        client=asked.client.name,
        scopes=[{"meaning": meaning, "is_new": scope in new} for scope, meaning in zip(scopes, meanings, strict=True)],
        left_out=len(scopes) < len(asked.scopes),
        collections=None if offered is None else offered[:most],
        has_more=len(offered or ()) > most,
        choice=choice,
        returns_to=urlsplit(asked.redirect_uri).netloc,
        action=visit.address,
        csrf=visit.form_token(visit.consent_purpose(person)),
        notice=notice,
    )
