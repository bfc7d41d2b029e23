"""An example of every operation: a valid request, and the answer to strangers. The table of operations lists a
request's members. Members outside `NAMED` and `VALUES`, or with other values, have a row in `OWN`."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial, partialmethod
from itertools import count
from typing import Any
from uuid import uuid4

import httpx

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import ApiOperation
from service.platform.identifiers import uuid7
from service.platform.secrets import SERVICE_ACCOUNT_TOKEN
from tests.harness.embeddings import MODEL, UNKNOWABLE
from tests.harness.services import RunningService
from tests.made_files import pdf
from tests.service.directory import done

Body = dict[str, Any]
FINGERPRINT = "f" * 64
DOCSTORE_URI = "mongodb://reader:lighthouse@mongo.example.test/shop"
DOCSTORE_CONFIG = {
    "syncName": "things",
    "collectionName": "things",
    "sourceFields": {"body": "text", "sourceName": "title"},
}
SOURCE_ITEM = {
    "place": "line 12",
    "code": "file_missing",
    "message": "The file is not there.",
    "fingerprint": FINGERPRINT,
    "since": "2026-01-31T09:30:00Z",
}
CLIENT = {"name": "Logbook", "redirectUris": ["https://app.example.test/cb"], "scopes": ["api:catalog:read"]}
ALERT_RULE = {"kinds": ["RUN_FAILED"], "webhookUrl": "https://hooks.example.test/carrel"}
_numbers = count(1)


def a_provider() -> Body:
    host = f"login-{next(_numbers)}.example.test"
    credential = {"clientId": "carrel", "clientSecret": "a secret"}
    return {"name": "Work", "issuer": f"https://{host}", "domains": [host], **credential}


def a_name() -> str:
    return f"Example {next(_numbers)}"


def a_ledger() -> str:
    return uuid4().hex[:24]


@dataclass(frozen=True)
class Owner:
    """The owner of a set of objects: a credential for making them, and a name for marking them."""

    service: RunningService
    credential: str
    mark: str

    def call(self, operation: str, body: Body | None = None) -> httpx.Response:
        return self.service.call(operation, body, api_key=self.credential)

    def upload(self, external_id: str, *, text: str = "", pdf: bytes | None = None) -> str:
        parts = {"documentExternalId": external_id, "documentName": f"{self.mark} {external_id}"}
        file = ("notes.pdf", pdf) if pdf else ("notes.txt", (text or f"What the {self.mark} saw.").encode())
        headers = {"Authorization": f"Bearer {self.credential}"}
        answer = self.service.http.post("/api/v0/catalog/uploadFile", data=parts, files={"file": file}, headers=headers)
        return str(done(answer)["documentId"])

    def make(self, operation: str, member: str, /, **body: Any) -> str:
        return str(done(self.call(operation, body))[member])

    def collection(self) -> str:
        operation = "documentCollections/createDocumentCollection"
        return self.make(operation, "documentCollectionId", collectionName=self.name())

    def agent(self, *collection_ids: str) -> str:
        body = {"name": self.name(), "collectionIds": collection_ids, "apiAccessEnabled": True}
        return self.make("admin/agents/create", "agentId", **body)

    def name(self) -> str:
        return f"{self.mark} {next(_numbers)}"

    def sync(self, collection_id: str) -> str:
        if self.credential.startswith(SERVICE_ACCOUNT_TOKEN):
            return ""
        body = {"documentCollectionId": collection_id, "docstoreURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
        return self.make("documentCollections/docstore/createDocstoreSync", "docstoreCredentialId", **body)

    def source(self, *, ended: bool = True) -> str:
        report = done(self.call("sources/reportSource", {"ledger": a_ledger(), "source": f"/srv/{self.mark}"}))
        done(self.call("sources/reportSourceItems", {**report, "items": [SOURCE_ITEM]}))
        if ended:
            done(self.call("sources/endSourceReport", report))
        return str(report["sourceId"])

    def deploy(self, agent_id: str, principal: Body) -> None:
        done(self.call("admin/agents/deploy", {"agentId": agent_id, "principals": [principal]}))

    def rebuild(self, collection_id: str) -> None:
        body = {"documentCollectionId": collection_id, "embeddingsModel": MODEL}
        done(self.call("documentCollections/startIndexRebuild", body))

    def place(self, document_id: str, collection_id: str) -> None:
        body = {"documentId": document_id, "documentCollectionId": collection_id, "customMetadata": {}}
        done(self.call("documentCollections/addDocumentToCollection", body))


# The ids of things that only some owners have.
OF_SOME = (
    *("group_id", "api_key_id", "account_id", "token_id", "scim_token_id", "client_id", "agent_id", "provider_id"),
    *("conversation_id", "message_id", "alert_id", "alert_rule_id", "delivery_id", "evaluation_set_id", "case_id"),
    *("evaluation_run_id", "spare_group_id", "spare_account_id", "spare_client_id", "spare_agent_id"),
    *("spare_provider_id", "spare_alert_rule_id", "spare_evaluation_set_id", "spare_evaluation_run_id"),
)


class Things:
    """An object of each kind needed by operations; used-up objects are remade; `_id` attributes are ids or ""."""

    def __init__(self, owner: Owner, email: str) -> None:
        vars(self).update(dict.fromkeys(OF_SOME, ""))
        self.owner, self.email = owner, email
        self.document_id = owner.upload(f"{owner.mark}-log")
        self.paged_document_id = owner.upload(f"{owner.mark}-pages", pdf=pdf([(owner.mark, 12)]))
        self.collection_id, self.chunked_collection_id = owner.collection(), owner.collection()
        self.back_in_collection()
        self.search_id = owner.make("search/searchDocumentCatalog", "searchId", searchQuery="what")
        self.rebuilt_collection_id = owner.collection()
        owner.rebuild(self.rebuilt_collection_id)
        self.sync_id = owner.sync(self.collection_id)
        self.source_id, self.reported_source_id = owner.source(), owner.source(ended=False)
        self.renew("document_id", "collection_id", "saved_search_id", "sync_id", "source_id")
        self.make("trashed_document_id")
        self.new_rebuild()

    @property
    def resource(self) -> Body:
        return {"resourceId": self.document_id, "resourceType": "UPLOADED_DOCUMENT"}

    @property
    def spare_email(self) -> str:
        """Return the address of a second user without resources."""
        return f"spare-{self.email}"

    @property
    def user(self) -> Body:
        return {"type": "user", "email": self.email}

    def nowhere(self) -> "Things":
        unknown = copy(self)
        for name in vars(self):
            if name.endswith("_id"):
                setattr(unknown, name, str(uuid7()))
        unknown.email = f"{uuid4().hex[: self.email.index('@')]}{self.email[self.email.index('@') :]}"
        return unknown

    def ids(self) -> set[str]:
        return {self.owner.mark, *(value for name, value in vars(self).items() if name.endswith("_id") and value)}

    def make(self, *names: str) -> None:
        for name in names:
            setattr(self, name, MAKERS[name](self))
        self.renew(*names)

    def renew(self, *names: str) -> None:
        for name in names:
            setattr(self, f"spare_{name}", MAKERS[name](self))

    new_group, new_account = partialmethod(renew, "group_id"), partialmethod(renew, "account_id")
    new_agent, new_client = partialmethod(renew, "agent_id"), partialmethod(renew, "client_id")

    def new_rebuild(self) -> None:
        """Make a new collection with an endless rebuild: the document can't be embedded."""
        self.cancelled_collection_id = self.owner.collection()
        document_id = self.owner.upload(f"{self.owner.mark}-{next(_numbers)}", text=f"What can't {UNKNOWABLE}.")
        self.owner.place(document_id, self.cancelled_collection_id)
        self.owner.rebuild(self.cancelled_collection_id)

    def back_in_collection(self) -> None:
        self.owner.place(self.document_id, self.collection_id)

    def converse(self) -> None:
        sent = done(self.owner.call("copilots/sendMessage", EXAMPLES["copilots/sendMessage"].body(self)))
        result = sent["sendChatResult"]
        self.conversation_id, self.message_id = result["conversationId"], result["messageId"]

    def fail(self) -> None:
        self.make("provider_id", "alert_rule_id")
        named = {"alertRuleId": self.alert_rule_id}
        [self.delivery_id] = done(self.owner.call("admin/alertRules/test", named))["deliveryIds"]
        body = {**EXAMPLES["alerts/reportRun"].body(self), "source": self.owner.mark, "outcome": "FAILED"}
        done(self.owner.call("alerts/reportRun", body))
        self.alert_id = done(self.owner.call("admin/alerts/list", {"pageSize": 1}))["alerts"][0]["alertId"]

    def evaluate(self) -> None:
        self.make("evaluation_set_id")
        body = EXAMPLES["admin/evaluationSets/putJudgements"].body(self)
        [self.case_id] = done(self.owner.call("admin/evaluationSets/putJudgements", body))["caseIds"]
        self.make("evaluation_run_id")


def maker(operation: str, member: str, body: Callable[[Things], Body]) -> Callable[[Things], str]:
    return lambda things: things.owner.make(operation, member, **body(things))


MAKERS: dict[str, Callable[[Things], str]] = {
    "document_id": lambda things: things.owner.upload(f"{things.owner.mark}-{next(_numbers)}"),
    "trashed_document_id": maker(
        "catalog/deleteDocument", "trashedDocumentId", lambda things: {"documentId": MAKERS["document_id"](things)}
    ),
    "collection_id": lambda things: things.owner.collection(),
    "sync_id": lambda things: things.owner.sync(things.collection_id),
    "source_id": lambda things: things.owner.source(),
    "agent_id": lambda things: things.owner.agent(),
    "group_id": lambda things: done(
        things.owner.call("admin/groups/upsert", {"groups": [{"name": things.owner.name()}]})
    )["groups"][0]["id"],
    "saved_search_id": maker("search/saveSearch", "savedSearchId", lambda _: {"searchQuery": "what"}),
    "account_id": maker("admin/serviceAccounts/create", "serviceAccountId", lambda _: {"displayName": "Spare"}),
    "client_id": maker("admin/oauthClients/create", "clientId", lambda _: CLIENT),
    "provider_id": maker("admin/signInProviders/create", "providerId", lambda _: a_provider()),
    "alert_rule_id": maker("admin/alertRules/create", "alertRuleId", lambda _: ALERT_RULE),
    "evaluation_set_id": maker(
        "admin/evaluationSets/create", "evaluationSetId", lambda things: {"name": things.owner.name()}
    ),
    "evaluation_run_id": maker(
        "admin/evaluationSets/addRun",
        "evaluationRunId",
        # The table of examples is made further down.
        lambda things: EXAMPLES["admin/evaluationSets/addRun"].body(things),  # noqa: PLW0108
    ),
}


@dataclass(frozen=True)
class Example:
    """A valid request of an operation. `acting` names the user a key acts for (`about_anyone`: admins may ask about
    anyone, and people about themselves). `file` is a form's file part; `elsewhere` is the answer to another
    organization's admin (None: 200, without data); `anew` remakes used-up objects."""

    body: Callable[[Things], Body]
    acting: str | None = None
    about_anyone: bool = False
    file: str | None = None
    elsewhere: tuple[int, str] | None = None
    anew: Callable[[Things], None] | None = None

    def send(self, http: httpx.Client, operation: str, body: Body, headers: dict[str, str]) -> httpx.Response:
        path = f"/api/v0/{operation}"
        if self.file is None:
            return http.post(path, json=body, headers=headers)
        return http.post(path, data=body, files={self.file: ("notes.txt", b"What was seen.")}, headers=headers)


NO_RESOURCE, NO_PRINCIPAL, NO_USER = (404, "resource_not_found"), (400, "unknown_principal"), (400, "unknown_user")
# The members that name a thing: its attribute of `Things`, and what a stranger to it is told. Of a request that names
# several, the first of these decides.
NAMED: dict[str, tuple[str, tuple[int, str]]] = {
    "documentId": ("document_id", (404, "document_not_found")),
    "trashedDocumentId": ("trashed_document_id", (404, "trashed_document_not_found")),
    "documentCollectionId": ("collection_id", (404, "collection_not_found")),
    "docstoreCredentialId": ("sync_id", (404, "docstore_sync_not_found")),
    "sourceId": ("source_id", (404, "source_not_found")),
    "searchId": ("search_id", (404, "search_not_found")),
    "savedSearchId": ("saved_search_id", (404, "saved_search_not_found")),
    "messageId": ("message_id", (404, "message_not_found")),
    "jobId": ("message_id", (404, "job_not_found")),
    "conversationId": ("conversation_id", (404, "conversation_not_found")),
    "agentId": ("agent_id", (404, "agent_not_found")),
    "groupId": ("group_id", (404, "group_not_found")),
    "apiKeyId": ("api_key_id", (404, "api_key_not_found")),
    "serviceAccountId": ("account_id", (404, "service_account_not_found")),
    "tokenId": ("token_id", (404, "token_not_found")),
    "providerId": ("provider_id", (404, "sign_in_provider_not_found")),
    "clientId": ("client_id", (404, "oauth_client_not_found")),
    "alertRuleId": ("alert_rule_id", (404, "alert_rule_not_found")),
    "alertId": ("alert_id", (404, "alert_not_found")),
    "deliveryId": ("delivery_id", (404, "alert_delivery_not_found")),
    "evaluationSetId": ("evaluation_set_id", (404, "evaluation_set_not_found")),
    "evaluationRunId": ("evaluation_run_id", (404, "evaluation_run_not_found")),
    "caseId": ("case_id", (404, "case_not_found")),
    "resource": ("resource", NO_RESOURCE),
    "principal": ("user", NO_PRINCIPAL),
    "newOwner": ("user", NO_PRINCIPAL),
    "member": ("user", NO_PRINCIPAL),
    "email": ("email", NO_USER),
    "ownerEmail": ("email", NO_USER),
}
# The values of the other members; those that are functions are called for each request.
VALUES: dict[str, Any] = {
    "action": "READ",
    "bucket": "week",
    "by": "GROUP",
    "chunks": ["What was seen."],
    "collectionName": lambda _: a_name(),
    "config": DOCSTORE_CONFIG,
    "conversation": {"type": "new"},
    "customMetadata": {},
    "displayName": "Bosun",
    "documentName": "Log of the Wren",
    "docstoreURI": DOCSTORE_URI,
    "feedback": "THUMBS_UP",
    "from": "2026-01-01T00:00:00Z",
    "grants": [],
    "items": [SOURCE_ITEM],
    "ledger": lambda _: a_ledger(),
    "members": lambda things: [things.user],
    "message": "What was seen?",
    "messageFeedback": {"feedback": "POSITIVE"},
    "name": lambda _: a_name(),
    "names": ["line 12"],
    "page": 1,
    "pageSize": 1000,
    "principals": lambda things: [things.user],
    "reportNo": 1,
    "readers": [],
    "scopes": [],
    "searchQuery": "what was seen",
    "source": "/srv/log",
    "title": "Renamed",
    "to": "2026-02-01T00:00:00Z",
}


def named(attribute: str) -> Callable[[Things], Any]:
    return lambda things: getattr(things, attribute)


OWN: dict[str, dict[str, Any]] = {
    "catalog/uploadFile": {"documentExternalId": lambda _: a_name()},
    "catalog/uploadDocumentContents": {
        "documentExternalId": lambda _: a_name(),
        "documentName": "Log",
        "documentContents": "Seen.",
    },
    "catalog/planUpload": {
        "documents": lambda things: [{"documentExternalId": f"{things.owner.mark}-log", "fingerprint": FINGERPRINT}]
    },
    "catalog/downloadDocumentPage": {"documentId": named("paged_document_id")},
    "catalog/deleteTrashedDocuments": {"trashedDocumentIds": lambda things: [things.spare_trashed_document_id]},
    "documentCollections/addDocumentChunksToCollection": {"documentCollectionId": named("chunked_collection_id")},
    "documentCollections/renameDocumentCollection": {"collectionName": lambda _: a_name()},
    "documentCollections/planFieldChanges": {"changes": lambda _: [{"name": a_name(), "type": "STRING"}]},
    "documentCollections/changeFields": {"changes": lambda _: [{"name": a_name(), "type": "STRING"}]},
    "documentCollections/countValues": {"documentCollectionId": named("collection_id")},
    "documentCollections/changeValues": {
        "documentCollectionId": named("collection_id"),
        "changes": lambda things: [{"documentId": things.document_id, "customMetadata": {}}],
    },
    "documentCollections/getDocumentChunks": {"documentCollectionId": named("collection_id")},
    "documentCollections/startIndexRebuild": {
        "documentCollectionId": named("rebuilt_collection_id"),
        "embeddingsModel": MODEL,
    },
    "documentCollections/getIndexRebuild": {"documentCollectionId": named("rebuilt_collection_id")},
    "documentCollections/listIndexRebuildFailures": {"documentCollectionId": named("rebuilt_collection_id")},
    "documentCollections/cancelIndexRebuild": {"documentCollectionId": named("cancelled_collection_id")},
    "sources/reportSourceItems": {"sourceId": named("reported_source_id")},
    "permissions/checkBulkResourcesAuthorizationForUser": {"resources": lambda things: [things.resource]},
    "admin/users/upsert": {"users": [{"email": "new@example.test"}]},
    "admin/groups/upsert": {"groups": lambda things: [{"name": "Crew", "members": [things.user]}]},
    "admin/grants/setMany": {"resources": lambda things: [{"resource": things.resource, "grants": []}]},
    "admin/owners/transfer": {"owner": lambda things: {"type": "user", "email": things.spare_email}},
    "admin/users/planOffboarding": {"email": named("spare_email")},
    "admin/users/offboard": {"email": named("spare_email")},
    "admin/apiKeys/create": {"ownerEmail": named("email")},
    "admin/scimTokens/revoke": {"tokenId": named("scim_token_id")},
    "admin/serviceAccountTokens/previewReach": {"serviceAccountId": named("account_id"), "scopes": []},
    "admin/oauthClients/create": CLIENT,
    "admin/oauthClients/request": CLIENT,
    "admin/oauthClients/update": {"name": "Log"},
    "admin/oauthClients/listConsents": {"clientId": named("client_id")},
    "admin/agents/create": {"collectionIds": lambda things: [things.collection_id]},
    "admin/agents/update": {"instructions": "Be brief."},
    "admin/agents/deploy": {"agentId": named("spare_agent_id")},
    "admin/evaluationSets/create": {"documentCollectionId": named("collection_id")},
    "admin/evaluationSets/putJudgements": {
        "cases": [{"question": "What was seen?", "judgements": [{"documentExternalId": "log", "grade": 2}]}]
    },
    "admin/evaluationSets/removeJudgements": {"documentExternalIds": ["log"]},
    "admin/evaluationSets/listCases": {"pageSize": 100},
    "admin/evaluationSets/addRun": {
        "mode": "HYBRID",
        "results": lambda things: [
            {"caseId": things.case_id, "ndcg": 1, "recall": 1, "reciprocalRank": 1, "found": ["log"]}
        ],
    },
    "alerts/reportRun": {
        "runId": lambda _: str(uuid4()),
        "subject": lambda _: a_ledger(),
        "flow": "bulk-upload",
        "outcome": "RUNNING",
    },
    "alerts/reportSchedules": {
        "schedules": [{"subject": "nightly", "name": "Nightly", "dueAt": "2036-01-31T09:30:00Z"}]
    },
    "admin/signInProviders/create": {
        **a_provider(),
        "issuer": lambda _: a_provider()["issuer"],
        "domains": lambda _: a_provider()["domains"],
    },
    "admin/signInProviders/update": {"createAccounts": True},
    "admin/alertRules/create": ALERT_RULE,
    "admin/alertRules/update": {"enabled": False},
    "admin/alerts/update": {"acknowledged": True},
    "admin/alertRules/listDeliveries": {"alertRuleId": named("alert_rule_id")},
}
# What operations use up, and what makes it again where that is no spare one.
USED_UP: dict[str, str | Callable[[Things], None]] = {
    "catalog/deleteDocument": "document_id",
    "catalog/restoreDocument": "trashed_document_id",
    "catalog/deleteTrashedDocuments": "trashed_document_id",
    "documentCollections/deleteDocumentCollection": "collection_id",
    "documentCollections/removeDocumentFromCollection": Things.back_in_collection,
    "documentCollections/cancelIndexRebuild": Things.new_rebuild,
    "documentCollections/docstore/deleteDocstoreSync": "sync_id",
    "sources/removeSource": "source_id",
    "search/deleteSavedSearch": "saved_search_id",
    "admin/groups/delete": "group_id",
    "admin/serviceAccounts/delete": "account_id",
    "admin/oauthClients/delete": "client_id",
    "admin/agents/delete": "agent_id",
    "admin/evaluationSets/delete": "evaluation_set_id",
    "admin/evaluationSets/deleteRun": "evaluation_run_id",
    "admin/signInProviders/delete": "provider_id",
    "admin/alertRules/delete": "alert_rule_id",
}
# What strangers are told where it isn't what the first of `NAMED` says.
ELSEWHERE: dict[str, tuple[int, str] | None] = {
    "catalog/deleteTrashedDocuments": (404, "trashed_document_not_found"),
    "permissions/checkResourceAuthorizationForUser": None,
    "admin/groups/upsert": NO_PRINCIPAL,
    "admin/grants/setMany": NO_RESOURCE,
    "admin/oauthClients/listConsents": None,
    "admin/agents/create": (400, "unknown_collection"),
    "admin/signInProviders/create": None,
}
ABOUT_ANYONE = {"permissions/checkResourceAuthorizationForUser", "permissions/checkBulkResourcesAuthorizationForUser"}
USER_EMAIL = "userEmail"


def members_of(operation: ApiOperation[Any, Any]) -> dict[str, bool]:
    if operation.request is None:
        return {"uploadAsUserEmail": False} if operation.path == "catalog/uploadFile" else {}
    return {field.alias or name: field.is_required() for name, field in operation.request.model_fields.items()}


def values_of(operation: ApiOperation[Any, Any]) -> dict[str, Any]:
    own, used_up, values = OWN.get(operation.path, {}), USED_UP.get(operation.path), dict[str, Any]()
    for member, is_needed in members_of(operation).items():
        if member in own or not (is_needed or member == "pageSize"):
            continue
        if member in NAMED:
            attribute = NAMED[member][0]
            values[member] = named(f"spare_{attribute}" if attribute == used_up else attribute)
        else:
            values[member] = VALUES[member]
    return values | own


def body_of(values: dict[str, Any], things: Things) -> Body:
    return {member: value(things) if callable(value) else value for member, value in values.items()}


def told_elsewhere(operation: ApiOperation[Any, Any], members: Iterable[str]) -> tuple[int, str] | None:
    return ELSEWHERE.get(operation.path, next((NAMED[one][1] for one in NAMED if one in members), None))


def an_example(operation: ApiOperation[Any, Any]) -> Example:
    path, members, values = operation.path, members_of(operation), values_of(operation)
    used_up = USED_UP.get(path)
    return Example(
        partial(body_of, values),
        acting=next((one for one in (USER_EMAIL, "uploadAsUserEmail") if one in members), None),
        about_anyone=path in ABOUT_ANYONE,
        file={"catalog/uploadFile": "file", "catalog/uploadDocumentFile": "document"}.get(path),
        elsewhere=told_elsewhere(operation, values),
        anew=(lambda things: things.renew(used_up)) if isinstance(used_up, str) else used_up,
    )


EXAMPLES = {path: an_example(operation) for path, operation in OPERATIONS.items() if operation.version != "v1"}


@dataclass(frozen=True)
class V1Example:
    """A valid request of a v1-only operation: a GET with parameters, or a POST with a body."""

    operation: ApiOperation[Any, Any]

    @property
    def elsewhere(self) -> tuple[int, str] | None:
        in_path = ["conversationId"] if "{conversationId}" in self.operation.path else []
        return told_elsewhere(self.operation, [*values_of(self.operation), *in_path])

    def send(
        self, service: RunningService, operation: str, token: str, things: Things, **more: object
    ) -> httpx.Response:
        url = f"{service.base_url}/api/v1/{operation.format(conversationId=things.conversation_id)}"
        method, headers = self.operation.method, {"Authorization": f"Bearer {token}"}
        sent = {"params" if method == "GET" else "json": body_of(values_of(self.operation), things) | more}
        return httpx.request(method, url, headers=headers, timeout=60, **sent)


V1_EXAMPLES = {path: V1Example(operation) for path, operation in OPERATIONS.items() if operation.version == "v1"}
