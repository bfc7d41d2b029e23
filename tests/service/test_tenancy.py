"""The second wall: a query without an organization, or with the wrong one, sees and changes nothing of another.

Two organizations hold the same: users and groups of the same names and addresses, documents of the same external ids,
collections of the same names. Only row-level security is left between them here.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from fastapi import Request
from psycopg import sql
from psycopg.errors import FeatureNotSupported, InsufficientPrivilege
from sqlalchemy import Select
from sqlalchemy.exc import NoResultFound
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from carrel.wire.admin import UserFilters
from carrel.wire.search import SearchMode
from service.audit import queries as audit
from service.auth import queries as authentication
from service.auth.callers import Caller
from service.domains.agents import queries as agents
from service.domains.catalog import queries as catalog
from service.domains.collections import queries as collections
from service.domains.collections.shared import queries as shared
from service.domains.conversations import queries as conversations
from service.domains.conversations.reading import queries as reading
from service.domains.directory import queries as directory
from service.domains.docstore import queries as docstore
from service.domains.docstore.running import queries as docstore_runs
from service.domains.documents import queries as documents
from service.domains.documents.contained import queries as contained
from service.domains.oauth import queries as oauth
from service.domains.oauth.consented import queries as consented
from service.domains.recognition.queries import replace_pages
from service.domains.search import queries as search
from service.domains.search.search_query import WHOLE, Hit, Scope, SearchQuery, prepare_query
from service.domains.signin import queries as signin
from service.domains.signin.factors import queries as factors
from service.domains.signin.providers import queries as providers
from service.domains.sources import queries as sources
from service.identity import queries as identity
from service.identity.memberships import queries as memberships
from service.index.ingestion.queries import keep_caller_chunks
from service.index.service import find_catalog
from service.index.spaces.queries import ask_catalog_space, ask_successor, find_catalog_space
from service.index.statistics.queries import ask_frequencies, fold_deltas
from service.operate.deployment.queries import FACTOR_SECRETS, SYNC_ADDRESSES, lock_sealed
from service.operate.distribution import INDEX_TABLE_NAMES
from service.permissions import queries as permissions
from service.platform.batches import Answer, Batch
from service.platform.database import SERVICE_ROLE
from service.platform.identifiers import NIL, uuid7
from service.schema.indexing import INDEX_TABLES, TOTAL_TERM
from service.web.dependencies import current_caller
from tests.harness.services import ADMIN_EMAIL, RunningService, ServiceHarness
from tests.oauth.flow import PASSWORD, Person, an_app
from tests.service.directory import another_organization, done, group, organization_id, user
from tests.service.examples import EXAMPLES, Owner, Things

MARK = "harbour"
ISSUER = "https://people.test"
ADA = "ada@example.test"
# What a transaction without an organization must find, to learn its organization.
CREDENTIALS = {
    "api_keys",
    "browser_sessions",
    "invitations",
    "oauth_access_tokens",
    "oauth_clients",
    "oauth_codes",
    "oauth_refresh_tokens",
    "organizations",
    "passkeys",
    "pending_sign_ins",
    "scim_tokens",
    "service_account_tokens",
    "sign_in_domains",
}
# Its rows have an organization in another place, and are there only while there is work.
QUEUE = "procrastinate_jobs"
# The audit log can't be changed at all.
ONLY_GROWS = {"audit_entries"}
# How a plan reads the organization that a transaction has entered, on one server and on those of a cluster.
READS_ORGANIZATION = r"\((InitPlan|NULLIF\(current_setting)"

Work = Callable[[AsyncConnection], Awaitable[Any]]


class Tenant:
    """An organization with one row at least in every table."""

    def __init__(self, service: RunningService, api_key: str) -> None:
        self.service = service
        self.owner = Owner(service, api_key, MARK)
        self.organization_id = organization_id(service, api_key=api_key)
        self.things = Things(self.owner, ADA)
        self._fill()

    def _fill(self) -> None:
        call, things = self.owner.call, self.things
        done(call("admin/users/upsert", {"users": [{"email": ADA, "name": "Ada", "password": PASSWORD}]}))
        done(call("admin/users/upsert", {"users": [{"email": things.spare_email}]}))
        crew = {"name": "Crew", "externalId": "crew", "members": [user(ADA)]}
        things.group_id = done(call("admin/groups/upsert", {"groups": [crew]}))["groups"][0]["id"]
        grants = [{"principal": group({"id": things.group_id}), "role": "VIEWER"}]
        done(call("admin/grants/set", {"resource": things.resource, "grants": grants}))
        done(call("documentCollections/addDocumentChunksToCollection", self._example("addDocumentChunksToCollection")))
        feedback = {"searchId": things.search_id, "feedback": "THUMBS_DOWN", "comments": "not it"}
        done(self.service.call("search/submitSearchFeedback", feedback, headers=self.headers))
        done(call("admin/users/invite", {"email": ADA}))
        done(call("admin/organization/update", {"serviceAccountsEnabled": True}))
        made = done(call("admin/serviceAccounts/create", {"displayName": "Bosun"}))
        things.account_id = made["serviceAccountId"]
        token = {"serviceAccountId": things.account_id, "name": "Deck", "scopes": ["catalog:read"]}
        things.new_account()
        things.new_group()
        things.token_id = done(call("admin/serviceAccountTokens/mint", token))["tokenId"]
        things.scim_token_id = done(call("admin/scimTokens/create", {"name": MARK}))["tokenId"]
        things.agent_id = self.owner.agent(things.collection_id)
        things.new_agent()
        done(call("admin/agents/deploy", {"agentId": things.agent_id, "principals": [], "organizationWide": True}))
        things.converse()
        things.evaluate()
        things.fail()
        self._sign_in()
        self.run(lambda connection: fold_deltas(connection, self.organization_id, limit=3))
        self.run(self._keep_waiting_chunks)
        self.run(self._keep_docstore_failure)
        self.run(self._keep_scanned_page)
        self.run(self._keep_left_out_file)
        for dimensions in INDEX_TABLES.keys() - {384}:
            self.run(partial(self._index_as_if, dimensions))

    def _sign_in(self) -> None:
        app = an_app(self.service, api_key=self.owner.credential)
        self.things.client_id = app.client_id
        self.things.new_client()
        ada = Person(self.service, ADA)
        ada.tokens(app)
        ada.http.close()
        self.run(self._keep_sign_ins)

    async def _keep_sign_ins(self, connection: AsyncConnection) -> None:
        ada = await signin.find_person(connection, self.organization_id, email=ADA)
        assert ada is not None
        now = await self.service.runtime.clock.now(connection)
        row = {"issuer": ISSUER, "subject": "ada", "principal_id": ada.principal_id, "bound_at": now}
        await signin.bind_identity(connection, self.organization_id, row=row)
        group_id, provider_id = UUID(self.things.group_id), UUID(self.things.provider_id)
        brought = {"provider_id": provider_id, "member_id": ada.principal_id, "group_ids": [group_id]}
        await providers.note_brought(connection, self.organization_id, **brought)
        failed = {"audit_log_id": uuid7(), "principal_id": ada.principal_id, "network": "192.0.2.1"}
        times = {"began_at": now, "last_at": now, "attempts": 1}
        await signin.count_failed_sign_in(connection, self.organization_id, row=failed | times)
        whose = {"principal_id": ada.principal_id}
        app = {"factor_id": uuid7(), "sealed_secret": b"sealed", "created_at": now} | whose
        await factors.insert_totp(connection, self.organization_id, row=app)
        await factors.replace_recovery_codes(connection, self.organization_id, **whose, hashes=[b"code"])
        passkey = {"credential_id": self.organization_id.bytes, "public_key": b"key", "user_handle": b"ada"}
        await factors.insert_passkey(
            connection,
            self.organization_id,
            factor={"factor_id": uuid7(), "created_at": now} | whose,
            passkey=passkey | {"sign_count": 0, "name": "Phone"},
        )
        challenge = {"challenge_hash": self.organization_id.bytes, "expires_at": now}
        await factors.use_challenge(connection, self.organization_id, **challenge)
        waiting = {"secret_hash": self.organization_id.bytes, "password_mark": b"mark"} | whose
        ends = {"created_at": now, "expires_at": now + timedelta(minutes=10)}
        await factors.insert_pending(connection, self.organization_id, row=waiting | ends)

    async def _keep_waiting_chunks(self, connection: AsyncConnection) -> None:
        space = await find_catalog(connection, self.organization_id)
        assert space is not None
        document_id = UUID(self.things.document_id)
        where = {"document_id": document_id, "space_id": space.space_id, "batch_id": uuid7()}
        await keep_caller_chunks(connection, self.organization_id, **where, chunks=b"")

    async def _keep_scanned_page(self, connection: AsyncConnection) -> None:
        batch, document_id = Batch(), UUID(self.things.document_id)
        replace_pages(
            batch, self.organization_id, document_id=document_id, sha256=bytes(32), pages=[1], pictures=[], most=1
        )
        await batch.run(connection)

    async def _keep_left_out_file(self, connection: AsyncConnection) -> None:
        left_out = contained.LeftOut(file_no=0, path="tool.exe", code="file_type_unsupported", message=MARK)
        container_id = UUID(self.things.document_id)
        await contained.save_left_out(connection, self.organization_id, container_id=container_id, files=[left_out])

    async def _keep_docstore_failure(self, connection: AsyncConnection) -> None:
        sync_id, document_id = UUID(self.things.sync_id), UUID(self.things.document_id)
        await docstore_runs.note_documents(
            connection, self.organization_id, sync_id=sync_id, document_ids=[document_id]
        )
        failure = docstore_runs.Failure(document_id, '"a"', MARK, "missing_value", "body")
        await docstore_runs.replace_failures(
            connection, self.organization_id, sync_id=sync_id, tried=(), failures=[failure]
        )

    async def _index_as_if(self, dimensions: int, connection: AsyncConnection) -> None:
        """Copy what is indexed of a document into the tables of other dimensions."""
        own = ("document_id", "space_id", "organization_id", "access_class")
        kept = {"chunks": (*own, "chunk_id", "chunk_no", "terms", "text_hash", "text"), "code_pages": (*own, "page_no")}
        vector = f"array_fill(0.1, ARRAY[{dimensions}])::halfvec"
        code = f"repeat('1', {dimensions})::bit({dimensions})"
        for (kind, columns), (name, value) in zip(kept.items(), {"embedding": vector, "c1": code}.items(), strict=True):
            listed = ", ".join(columns)
            statement = (
                f"INSERT INTO {kind}_{dimensions} ({listed}, {name})"  # noqa: S608
                f" SELECT {listed}, {value} FROM {kind}_384 LIMIT 1 ON CONFLICT DO NOTHING"
            )
            await connection.exec_driver_sql(statement)

    def _example(self, name: str) -> dict[str, Any]:
        return EXAMPLES[f"documentCollections/{name}"].body(self.things)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request that may be sent again."""
        return {"Authorization": f"Bearer {self.owner.credential}", "Idempotency-Key": "the-same-in-both"}

    def run(self, work: Work, *, entered: "Tenant | None" = None) -> Any:
        """Do something in a transaction of this organization, or of the one that is `entered`."""

        async def run() -> Any:
            async with self.service.runtime.database.transaction((entered or self).organization_id) as connection:
                return await work(connection)

        return self.service.run(run())

    def caller(self) -> Caller:
        """The admin of this organization, as it is known to queries."""

        async def find() -> Caller:
            headers = [(b"authorization", self.headers["Authorization"].encode())]
            request = Request({"type": "http", "client": ("127.0.0.1", 1), "headers": headers})
            return await current_caller(request, self.service.runtime)

        return self.service.run(find())


Pair = tuple[Tenant, Tenant]


@pytest.fixture(scope="module")
def pair(service_harness: ServiceHarness) -> Iterator[Pair]:
    """The two; nothing works on them in the background. One connection serves all, so that each is used by both."""
    service, stack = service_harness.start(sweep_seconds=3600, docstore_workers=0, database_pool_size=1)
    try:
        yield Tenant(service, service.api_key), Tenant(service, another_organization(service, admin_email=ADMIN_EMAIL))
    finally:
        service_harness.stop(service, stack)


@pytest.fixture(scope="module")
def protected(pair: Pair) -> list[str]:
    """Every table that has organizations' rows."""
    with pair[0].service.owner_connection() as connection:
        names = connection.execute("SELECT tablename FROM pg_policies WHERE policyname = 'organization' ORDER BY 1")
        return [name for (name,) in names if name != QUEUE]


def owners_of(connection: psycopg.Connection[Any], table: str) -> dict[UUID, int]:
    """How many rows of a table whom belong to."""
    return dict(connection.execute(on("SELECT organization_id, count(*) FROM {} GROUP BY 1", table)).fetchall())


def on(statement: LiteralString, table: str) -> sql.Composed:
    """A statement on a table."""
    return sql.SQL(statement).format(sql.Identifier(table))


@pytest.fixture
def entered(pair: Pair) -> Iterator[psycopg.Connection[Any]]:
    """A connection with nothing but the service's rights, in a transaction of the first organization."""
    with pair[0].service.owner_connection() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
        connection.execute(f"SELECT enter_organization('{pair[0].organization_id}')")
        yield connection


def test_both_have_rows_in_every_table(pair: Pair, protected: list[str]) -> None:
    """Otherwise the tests below would show nothing; a new table needs its row in `Tenant`."""
    both = {one.organization_id for one in pair}
    with pair[0].service.owner_connection() as connection:
        assert {table: owners_of(connection, table).keys() for table in protected} == dict.fromkeys(protected, both)


def test_a_query_that_names_no_organization_reads_its_own(
    pair: Pair, protected: list[str], entered: psycopg.Connection[Any]
) -> None:
    """Whatever the table: not when it asks for all, nor for the other's by name, nor to lock them."""
    own, other = (one.organization_id for one in pair)
    database = pair[0].service.runtime.database
    for table in protected:
        assert owners_of(entered, table).keys() == {own}, table
        named = entered.execute(on("SELECT FROM {} WHERE organization_id = %s", table), [other])
        assert named.rowcount == 0, table
        # A cluster locks no rows of several servers, whosever they are.
        if table not in ONLY_GROWS and not (table in INDEX_TABLE_NAMES and database.is_distributed):
            locked = entered.execute(on("SELECT FROM {} WHERE organization_id = %s FOR UPDATE", table), [other])
            assert locked.rowcount == 0, table


def test_a_statement_that_names_no_organization_changes_its_own(
    pair: Pair, protected: list[str], entered: psycopg.Connection[Any]
) -> None:
    """An UPDATE or DELETE without a condition leaves the other's rows as they were."""
    own, other = (one.organization_id for one in pair)
    for table in (name for name in protected if name not in ONLY_GROWS):
        changed = entered.execute(
            on("UPDATE {} SET organization_id = organization_id RETURNING organization_id", table)
        )
        assert {row for (row,) in changed} == {own}, table
        deleted = entered.execute(on("DELETE FROM {} WHERE organization_id = %s", table), [other])
        assert deleted.rowcount == 0, table


def test_a_row_of_the_other_cannot_be_written(
    pair: Pair, protected: list[str], entered: psycopg.Connection[Any]
) -> None:
    """Neither a new one nor by giving it one's own; not even a row like one it has."""
    other = pair[1].organization_id
    with pair[0].service.owner_connection() as owner:
        rows = {
            table: owner.execute(
                on("SELECT to_jsonb(t) FROM {} t WHERE organization_id = %s LIMIT 1", table), [other]
            ).fetchone()
            for table in protected
        }
    for table, row in rows.items():
        assert row is not None, table
        new = "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(NULL::{0}, %s)).*"
        refused(entered, on(new, table), [json.dumps(row[0])])
        if table not in ONLY_GROWS:
            refused(entered, on("UPDATE {} SET organization_id = %s", table), [other])


def refused(connection: psycopg.Connection[Any], statement: sql.Composed, parameters: list[Any]) -> None:
    """Row-level security refuses the statement; a cluster says of some that it can't do them beside it."""
    with (
        pytest.raises((InsufficientPrivilege, FeatureNotSupported), match="row-level security"),
        connection.transaction(),
    ):
        connection.execute(statement, parameters)


def reads(tenant: Tenant) -> dict[str, Work]:
    """The queries that show what an organization has, each told to show this one's."""
    own, things, caller = tenant.organization_id, tenant.things, tenant.caller()
    document, collection = UUID(things.document_id), UUID(things.collection_id)
    crew, admin = UUID(things.group_id), caller.principal_id
    client, agent, sync = UUID(things.client_id), UUID(things.agent_id), UUID(things.sync_id)
    source = UUID(things.source_id)
    turn, conversation = UUID(things.message_id), UUID(things.conversation_id)
    ada = tenant.run(lambda connection: signin.find_person(connection, own, email=ADA)).principal_id
    page: dict[str, Any] = {"after": NIL, "limit": 1000}
    space = tenant.run(lambda connection: find_catalog(connection, own))
    embedder = tenant.service.runtime.embedders.get(None)
    embedding = tenant.service.run(embedder.embed([MARK]))[0]
    question = prepare_query(
        MARK, mode=SearchMode.HYBRID, language="english", embedding=embedding, mean=embedder.model.mean
    )
    question = question.with_weights(dict.fromkeys(question.term_set, 1.0))
    scope = Scope(caller=caller, space=space, by_chunk=False)
    narrowed = catalog.DocumentFilter()
    return {
        "find a user": lambda c: authentication.find_acting_user(c, own, email=ADA),
        "get a principal": lambda c: authentication.get_acting_principal(c, own, principal_id=admin),
        "get the organization": lambda c: identity.get_organization(c, own),
        "find principals": lambda c: identity.find_principals(c, own, emails=[ADA], ids=[crew]),
        "find groups": lambda c: identity.find_groups(c, own, external_ids=["crew"], names=["Crew"]),
        "is there an admin": lambda c: identity.has_active_admin(c, own),
        "list users": lambda c: directory.list_users(c, own, filters=UserFilters(), ids=None, **page),
        "count users": lambda c: directory.count_users(c, own, filters=UserFilters()),
        "list memberships": lambda c: directory.list_memberships(c, own, member_id=ada, **page),
        "list groups": lambda c: identity.list_groups(c, own, query=None, ids=None, **page),
        "list members": lambda c: identity.list_members(c, own, group_id=crew, **page),
        "count members": lambda c: memberships.count_members(c, own, group_ids=[crew]),
        "list keys": lambda c: identity.list_api_keys(c, own, ids=None, owner_email=None, **page),
        "list entries": lambda c: audit.list_entries(c, own, filters=audit.EntryFilter(), before=None, limit=9),
        "find a resource": lambda c: permissions.find_resource(
            c, own, resource_type="UPLOADED_DOCUMENT", resource_id=things.document_id
        ),
        "readable classes": lambda c: rows(c, permissions.readable_classes(caller)),
        "read a document": lambda c: documents.read_document(c, own, document_id=document),
        "list documents": lambda c: catalog.list_documents(c, caller, filters=narrowed, after=None, limit=9),
        "list versions": lambda c: catalog.list_versions(c, own, document_id=document),
        "read a file": lambda c: documents.read_file(c, own, document_id=document, version=1),
        "look at uploads": lambda c: catalog.read_upload_states(c, caller, document_ids=[document]),
        "read a collection": lambda c: collections.read_collection(c, caller, collection_id=collection),
        "list collections": lambda c: collections.list_collections(c, caller, name_contains=None, **page),
        "list places": lambda c: collections.list_memberships(c, caller, document_id=document),
        "list chunks": lambda c: collections.list_chunks(
            c, caller, document_id=document, space_id=space.space_id, dimensions=space.dimensions, after=-1, limit=9
        ),
        "find the catalog": lambda c: find_catalog_space(c, own),
        "get a sync": lambda c: docstore.get_sync(c, own, sync_id=sync),
        "show a sync": lambda c: docstore.read_sync(c, own, sync_id=sync),
        "list syncs": lambda c: docstore.list_syncs(c, caller, collection_id=None, **page),
        "list failures of a sync": lambda c: docstore.list_failures(c, own, sync_id=sync, **page),
        "list addresses": lambda c: lock_sealed(c, own, sealed=SYNC_ADDRESSES),
        "list what vanished": lambda c: docstore_runs.list_unlisted_documents(
            c, own, sync_id=sync, listing_no=1, **page
        ),
        "count sources": lambda c: sources.count_sources(c, own),
        "find a source": lambda c: sources.find_source(c, caller, source_id=source),
        "hold a source": lambda c: sources.lock_source(c, caller, source_id=source),
        "show a source": lambda c: sources.read_source(c, caller, source_id=source),
        "list reported sources": lambda c: sources.list_sources(c, caller, ledger=None, own=False, **page),
        "find a report": lambda c: sources.find_report(c, own, source_id=source, report_no=1),
        "list items of a source": lambda c: sources.list_items(
            c, caller, source_id=source, ignored=None, after=("", NIL), limit=9
        ),
        "search by meaning": lambda c: candidates(c, scope, replace(question, mode=SearchMode.SEMANTIC)),
        "search by words": lambda c: candidates(c, scope, replace(question, mode=SearchMode.LEXICAL)),
        "search by both": lambda c: candidates(c, scope, question),
        "count chunks with a word": lambda c: asked(
            c, lambda batch: ask_frequencies(batch, own, space_id=space.space_id, terms=[TOTAL_TERM])
        ),
        "look up the space of a search": lambda c: asked(
            c, lambda batch: ask_successor(batch, own, space_id=space.space_id)
        ),
        "look up the catalog of a search": lambda c: asked(c, lambda batch: ask_catalog_space(batch, own)),
        "look up the collection of a search": lambda c: asked(
            c, lambda batch: shared.ask_collection(batch, own, collection_id=collection)
        ),
        "read what was found": lambda c: asked(
            c,
            lambda batch: search.ask_found_documents(
                batch, scope, question, hits=[Hit(document, WHOLE)], chunk_weights=search.ChunkWeights(1, 1)
            ),
        ),
        "get an agent": lambda c: agents.get_agent(c, own, agent_id=agent),
        "get a deployed agent": lambda c: agents.get_deployed_agent(c, caller, agent_id=agent),
        "list agents": lambda c: agents.list_agents(c, own, name_contains=None, ids=None, **page),
        "list deployed agents": lambda c: agents.list_deployed_agents(c, caller, among_ids=None, **page),
        "hold collections": lambda c: agents.lock_collections(c, own, collection_ids=[collection]),
        "get a client": lambda c: oauth.get_client(c, own, client_id=client),
        "list clients": lambda c: oauth.list_clients(c, own, status=None, ids=None, **page),
        "get a consent": lambda c: consented.get_consent(c, own, principal_id=ada, client_id=client),
        "list consents": lambda c: consented.list_consents(c, own, principal_id=ada),
        "list everybody's consents": lambda c: consented.list_consents(c, own, client_id=client, limit=9),
        "list families": lambda c: oauth.families_of(c, own, principal_ids=[ada], client_id=client),
        "get a person": lambda c: signin.get_person(c, own, principal_id=ada),
        "find a person": lambda c: signin.find_person(c, own, email=ADA),
        "list factors": lambda c: factors.list_factors(c, own, principal_id=ada),
        "list factors of users": lambda c: directory.list_second_factors(c, own, principal_ids=[ada]),
        "count recovery codes": lambda c: factors.count_recovery_codes(c, own, principal_id=ada),
        "lock secrets": lambda c: lock_sealed(c, own, sealed=FACTOR_SECRETS),
        "find an identity": lambda c: signin.find_identity(c, own, issuer=ISSUER, subject="ada"),
        "find a turn": lambda c: reading.find_turn(c, caller, turn_id=turn),
        "look at a turn": lambda c: reading.status_of(c, own, turn_id=turn),
        "list turns": lambda c: reading.list_turns(c, caller, conversation_id=conversation, after=0, limit=9),
        "list sources": lambda c: reading.list_sources(c, caller, turn_ids=[turn], with_text=True),
        "find a conversation": lambda c: reading.find_conversation(
            c, caller, conversation_id=conversation, agent_ids=None
        ),
        "list conversations": lambda c: reading.list_conversations(c, caller, agent_ids=None, position=None, limit=9),
        "lock a conversation": lambda c: conversations.lock_conversation(
            c, caller, conversation_id=conversation, agent_id=agent
        ),
        "lock a turn's conversation": lambda c: conversations.lock_conversation_of(c, own, turn_id=turn),
        "list history": lambda c: conversations.list_history(
            c, caller, conversation_id=conversation, before=9, limit=9
        ),
        "list searches": lambda c: search.list_searches(c, own, filters=search.SearchFilter(), before=None, limit=9),
    }


async def candidates(connection: AsyncConnection, scope: Scope, question: SearchQuery) -> object:
    """What the legs of a search find."""
    _, exact = await search.find_candidates(connection, scope, question, at_least=10)
    return exact


async def asked(connection: AsyncConnection, ask: Callable[[Batch], Answer[Any]]) -> object:
    """What the one statement of a batch finds."""
    batch = Batch()
    answer = ask(batch)
    await batch.run(connection)
    return answer.rows


async def rows(connection: AsyncConnection, statement: Select[Any]) -> Sequence[Any]:
    """What a statement finds."""
    return (await connection.execute(statement)).all()


def test_a_query_told_to_show_the_other_shows_nothing(pair: Pair) -> None:
    """With the other's id and caller, in a transaction of the first: as if the first wall were not there."""
    first, second = pair
    for name, read in reads(second).items():
        assert second.run(read), name
        try:
            found = second.run(read, entered=first)
        except NoResultFound:
            continue
        assert not found, name


def test_requests_served_in_the_wrong_organization_show_and_change_nothing(
    pair: Pair, protected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation, asked by the second's admin about its own things, while all its transactions enter the first."""
    first, second = pair
    requests = {name: example.body(second.things) for name, example in EXAMPLES.items()}
    before = rows_of(second, protected), rows_of(first, protected)
    wrong = in_organization(second.service.runtime.database.transaction, first.organization_id)
    monkeypatch.setattr(second.service.runtime.database, "transaction", wrong)
    headers = {"Authorization": second.headers["Authorization"]}
    for operation, body in requests.items():
        # Rendering an exception for the console, with all its variables, takes 20 seconds.
        with capture_logs():
            answer = EXAMPLES[operation].send(second.service.http, operation, body, headers)
        known = {each for each in second.things.ids() if each in json.dumps(body)}
        assert not [each for each in second.things.ids() - known if each in answer.text], operation
        assert answer.status_code == 200 or "error" in answer.json(), operation
    monkeypatch.undo()
    assert (rows_of(second, protected), rows_of(first, protected)) == before


def rows_of(tenant: Tenant, tables: list[str]) -> dict[str, int]:
    """How many rows an organization has in each table."""
    with tenant.service.owner_connection() as connection:
        return {table: owners_of(connection, table)[tenant.organization_id] for table in tables}


def in_organization(transaction: Callable[..., Any], wrong_id: UUID) -> Callable[..., Any]:
    """Transactions like these, but for one: whatever organization they are to enter, they enter the wrong one."""

    @asynccontextmanager
    async def wrong(organization_id: UUID | None, **options: Any) -> AsyncGenerator[AsyncConnection]:
        async with transaction(organization_id and wrong_id, **options) as connection:
            yield connection

    return wrong


def test_a_connection_keeps_no_organization(pair: Pair) -> None:
    """The next transaction on it has none: after a commit, an error, or a transaction that was cancelled half-way."""
    tenant = pair[0]
    database = tenant.service.runtime.database

    async def entered(organization: UUID | None) -> tuple[int, str]:
        async with database.transaction(organization) as connection:
            return await state(connection)

    async def failing() -> None:
        async with database.transaction(tenant.organization_id) as connection:
            await connection.exec_driver_sql("SELECT 1 / 0")

    async def cancelled() -> None:
        async with asyncio.timeout(0.2), database.transaction(tenant.organization_id) as connection:
            await connection.exec_driver_sql("SELECT 1")
            await asyncio.sleep(60)

    backend, found = tenant.service.run(entered(tenant.organization_id))
    assert found == str(tenant.organization_id)
    assert tenant.service.run(entered(None)) == (backend, "")
    with pytest.raises(Exception, match="division by zero"):
        tenant.service.run(failing())
    assert tenant.service.run(entered(None)) == (backend, "")
    with pytest.raises(TimeoutError):
        tenant.service.run(cancelled())
    assert tenant.service.run(entered(None)) == (backend, "")


async def state(connection: AsyncConnection) -> tuple[int, str]:
    """The server's process behind a connection, and the organization it has entered."""
    row = await connection.exec_driver_sql("SELECT pg_backend_pid(), current_setting('carrel.organization_id', true)")
    backend, organization = row.one()
    return backend, organization or ""


def test_the_policy_is_looked_at_once_a_statement(
    pair: Pair, protected: list[str], entered: psycopg.Connection[Any]
) -> None:
    """A query that names its organization, as all do, isn't held up at each row: scans cost what they would without."""
    for table in (name for name in protected if name not in CREDENTIALS):
        explain = on("EXPLAIN (COSTS OFF) SELECT * FROM {} WHERE organization_id = %s", table)
        plan = "\n".join(line for (line,) in entered.execute(explain, [pair[0].organization_id]))
        assert re.search(rf"One-Time Filter: \({READS_ORGANIZATION}", plan), plan
        assert not re.search(rf"Filter: \(organization_id = {READS_ORGANIZATION}", plan), plan


def test_without_an_organization_only_credentials_are_seen(pair: Pair, protected: list[str]) -> None:
    """That is how a caller is recognised; it can be read, not changed, and nothing else is there."""

    async def count(connection: AsyncConnection, table: str) -> int:
        return len((await connection.exec_driver_sql(f"TABLE {table}")).all())

    async def count_all() -> dict[str, int]:
        async with pair[0].service.runtime.database.transaction(None) as connection:
            return {table: await count(connection, table) for table in protected}

    found = pair[0].service.run(count_all())
    assert {table for table, rows in found.items() if rows} == CREDENTIALS
    with pair[0].service.owner_connection() as connection:
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        for table in CREDENTIALS:
            assert connection.execute(on("UPDATE {} SET organization_id = organization_id", table)).rowcount == 0, table
