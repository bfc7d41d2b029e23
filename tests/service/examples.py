"""An example of every operation: a valid request, and the answer to strangers. The table of operations lists a
request's members, and tests/data/cases/requests_of_operations.json their values. Its `named` has the members that name
a thing: the attribute of `Things`, and the answer to strangers (the first of several decides). Its `values` has the
other members, and `own` the members of an operation with other values. Its `used up` says what an operation uses up, or
the method of `Things` that makes it again. Its `elsewhere` has answers to strangers that differ from `named`. A value
"Things.x" is an attribute of `Things`, and "NEW.x" is made by `NEW` for each request."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import httpx

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import ApiOperation
from service.platform.identifiers import uuid7
from service.platform.secrets import SERVICE_ACCOUNT_TOKEN
from tests.harness.cases import cases
from tests.harness.embeddings import MODEL, UNKNOWABLE
from tests.harness.services import RunningService
from tests.made_files import pdf
from tests.service.directory import done

Body = dict[str, Any]
REQUESTS = cases("requests_of_operations")
NAMED, VALUES, OWN, USED_UP, ELSEWHERE = (REQUESTS[name] for name in ("named", "values", "own", "used up", "elsewhere"))
DOCSTORE_URI, DOCSTORE_CONFIG = VALUES["docstoreURI"], VALUES["config"]
CLIENT = OWN["admin/oauthClients/create"]
_numbers = count(1)


def a_ledger() -> str:
    return uuid4().hex[:24]


NEW: dict[str, Callable[[], str]] = {
    "name": lambda: f"Example {next(_numbers)}",
    "ledger": a_ledger,
    "run": lambda: str(uuid4()),
    "domain": lambda: f"login-{next(_numbers)}.example.test",
    "issuer": lambda: f"https://login-{next(_numbers)}.example.test",
}


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
        done(self.call("sources/reportSourceItems", {**report, "items": VALUES["items"]}))
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
    *("trashed_group_id", "spare_trashed_group_id"),
)


class Things:
    """An object of each kind needed by operations; used-up objects are remade; `_id` attributes are ids or ""."""

    model = MODEL

    def __init__(self, owner: Owner, email: str) -> None:
        vars(self).update(dict.fromkeys(OF_SOME, ""))
        self.owner, self.email, self.log = owner, email, f"{owner.mark}-log"
        self.document_id = owner.upload(self.log)
        self.paged_document_id = owner.upload(f"{owner.mark}-pages", pdf=pdf([(owner.mark, 12)]))
        self.collection_id, self.chunked_collection_id = owner.collection(), owner.collection()
        self.back_in_collection()
        self.search_id = owner.make("search/searchDocumentCatalog", "searchId", searchQuery="what")
        self.rebuilt_collection_id = owner.collection()
        owner.rebuild(self.rebuilt_collection_id)
        self.sync_id = owner.sync(self.collection_id)
        self.source_id, self.reported_source_id = owner.source(), owner.source(ended=False)
        self.renew("document_id", "collection_id", "saved_search_id", "sync_id", "source_id")
        self.make("trashed_document_id", "document_change_id")
        self.new_rebuild()

    @property
    def resource(self) -> Body:
        return {"resourceId": self.document_id, "resourceType": "UPLOADED_DOCUMENT"}

    @property
    def spare_email(self) -> str:
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


def maker(operation: str, member: str, body: Callable[[Things], Body] | None = None) -> Callable[[Things], str]:
    return lambda things: things.owner.make(operation, member, **(body or EXAMPLES[operation].body)(things))


MAKERS: dict[str, Callable[[Things], str]] = {
    "document_id": lambda things: things.owner.upload(f"{things.owner.mark}-{next(_numbers)}"),
    "trashed_document_id": maker(
        "catalog/deleteDocument", "trashedDocumentId", lambda things: {"documentId": MAKERS["document_id"](things)}
    ),
    "document_change_id": maker(
        "catalog/startDocumentChange",
        "documentChangeId",
        lambda _: {"change": "REINDEX", "expectedCount": 0, "folder": "Nowhere"},
    ),
    "collection_id": lambda things: things.owner.collection(),
    "sync_id": lambda things: things.owner.sync(things.collection_id),
    "source_id": lambda things: things.owner.source(),
    "agent_id": lambda things: things.owner.agent(),
    "group_id": lambda things: done(
        things.owner.call("admin/groups/upsert", {"groups": [{"name": things.owner.name()}]})
    )["groups"][0]["id"],
    "trashed_group_id": maker("admin/groups/delete", "groupId", lambda things: {"groupId": MAKERS["group_id"](things)}),
    "saved_search_id": maker("search/saveSearch", "savedSearchId"),
    "account_id": maker("admin/serviceAccounts/create", "serviceAccountId"),
    "client_id": maker("admin/oauthClients/create", "clientId"),
    "provider_id": maker("admin/signInProviders/create", "providerId"),
    "alert_rule_id": maker("admin/alertRules/create", "alertRuleId"),
    "evaluation_set_id": maker(
        "admin/evaluationSets/create", "evaluationSetId", lambda things: {"name": things.owner.name()}
    ),
    "evaluation_run_id": maker("admin/evaluationSets/addRun", "evaluationRunId"),
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
            values[member] = f"Things.spare_{attribute}" if attribute == used_up else f"Things.{attribute}"
        else:
            values[member] = VALUES[member]
    return values | own


def resolved(value: Any, things: Things) -> Any:
    if isinstance(value, dict):
        return {name: resolved(each, things) for name, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, things) for each in value]
    whose, _, name = value.partition(".") if isinstance(value, str) else ("", "", "")
    if whose == "Things" and name:
        return getattr(things, name)
    return NEW[name]() if whose == "NEW" else value


def told_elsewhere(operation: ApiOperation[Any, Any], members: Iterable[str]) -> tuple[int, str] | None:
    told = ELSEWHERE.get(operation.path, next((NAMED[one][1:] for one in NAMED if one in members), None))
    return told and tuple(told)


def an_example(operation: ApiOperation[Any, Any]) -> Example:
    path, members, values = operation.path, members_of(operation), values_of(operation)
    used_up = USED_UP.get(path)
    return Example(
        partial(resolved, values),
        acting=next((one for one in (USER_EMAIL, "uploadAsUserEmail") if one in members), None),
        about_anyone=path in ABOUT_ANYONE,
        file={"catalog/uploadFile": "file", "catalog/uploadDocumentFile": "document"}.get(path),
        elsewhere=told_elsewhere(operation, values),
        anew=used_up and (lambda things: things.renew(used_up) if used_up in MAKERS else getattr(things, used_up)()),
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
        sent = {"params" if method == "GET" else "json": resolved(values_of(self.operation), things) | more}
        return httpx.request(method, url, headers=headers, timeout=60, **sent)


V1_EXAMPLES = {path: V1Example(operation) for path, operation in OPERATIONS.items() if operation.version == "v1"}
