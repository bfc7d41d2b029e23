"""An example of every operation: a valid request about things that are there, and what strangers to them are told."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import httpx

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
    """A sign-in provider of an issuer and a domain of its own."""
    host = f"login-{next(_numbers)}.example.test"
    return {
        "name": "Work",
        "issuer": f"https://{host}",
        "clientId": "carrel",
        "clientSecret": "a secret",
        "domains": [host],
    }


@dataclass(frozen=True)
class Owner:
    """Who owns a set of things: a credential that may make them, and the name by which all of them are marked."""

    service: RunningService
    credential: str
    mark: str

    def call(self, operation: str, body: Body | None = None) -> httpx.Response:
        """Ask as the owner."""
        return self.service.call(operation, body, api_key=self.credential)

    def upload(self, external_id: str, *, text: str = "", pdf: bytes | None = None) -> str:
        """Upload a document and return its id."""
        parts = {"documentExternalId": external_id, "documentName": f"{self.mark} {external_id}"}
        answer = self.service.http.post(
            "/api/v0/catalog/uploadFile",
            data=parts,
            files={
                "file": ("notes.pdf", pdf) if pdf else ("notes.txt", (text or f"What the {self.mark} saw.").encode())
            },
            headers={"Authorization": f"Bearer {self.credential}"},
        )
        return str(done(answer)["documentId"])

    def collection(self) -> str:
        """Create a collection and return its id."""
        name = f"{self.mark} {next(_numbers)}"
        made = done(self.call("documentCollections/createDocumentCollection", {"collectionName": name}))
        return str(made["documentCollectionId"])

    def agent(self, *collection_ids: str) -> str:
        """Define an agent and return its id."""
        body = {
            "name": f"{self.mark} {next(_numbers)}",
            "collectionIds": collection_ids,
            "apiAccessEnabled": True,
        }
        return str(done(self.call("admin/agents/create", body))["agentId"])

    def sync(self, collection_id: str) -> str:
        """Create a sync into a collection and return its id; "" for a service account, which can't have any."""
        if self.credential.startswith(SERVICE_ACCOUNT_TOKEN):
            return ""
        body = {"documentCollectionId": collection_id, "docstoreURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG}
        return str(done(self.call("documentCollections/docstore/createDocstoreSync", body))["docstoreCredentialId"])

    def source(self, *, ended: bool = True) -> str:
        """Report a source with one item in quarantine, and return its id."""
        body = {"ledger": a_ledger(), "source": f"/srv/{self.mark}"}
        report = done(self.call("sources/reportSource", body))
        done(self.call("sources/reportSourceItems", {**report, "items": [SOURCE_ITEM]}))
        if ended:
            done(self.call("sources/endSourceReport", report))
        return str(report["sourceId"])

    def deploy(self, agent_id: str, principal: Body) -> None:
        """Let a principal use an agent, and nobody else."""
        done(self.call("admin/agents/deploy", {"agentId": agent_id, "principals": [principal]}))

    def rebuild(self, collection_id: str) -> None:
        """Begin to rebuild a collection's index."""
        body = {"documentCollectionId": collection_id, "embeddingsModel": MODEL}
        done(self.call("documentCollections/startIndexRebuild", body))

    def place(self, document_id: str, collection_id: str) -> None:
        """Put a document into a collection."""
        body = {"documentId": document_id, "documentCollectionId": collection_id, "customMetadata": {}}
        done(self.call("documentCollections/addDocumentToCollection", body))


@dataclass
class Things:
    """One of everything that operations are about. What an operation uses up is a spare one, and made anew by it."""

    owner: Owner
    email: str
    group_id: str = ""
    spare_group_id: str = ""
    api_key_id: str = ""
    account_id: str = ""
    spare_account_id: str = ""
    token_id: str = ""
    scim_token_id: str = ""
    client_id: str = ""
    spare_client_id: str = ""
    agent_id: str = ""
    spare_agent_id: str = ""
    conversation_id: str = ""
    message_id: str = ""
    document_id: str = field(init=False)
    paged_document_id: str = field(init=False)
    spare_document_id: str = field(init=False)
    collection_id: str = field(init=False)
    spare_collection_id: str = field(init=False)
    chunked_collection_id: str = field(init=False)
    rebuilt_collection_id: str = field(init=False)
    cancelled_collection_id: str = field(init=False)
    search_id: str = field(init=False)
    spare_saved_search_id: str = field(init=False)
    sync_id: str = field(init=False)
    spare_sync_id: str = field(init=False)
    source_id: str = field(init=False)
    reported_source_id: str = field(init=False)
    spare_source_id: str = field(init=False)
    provider_id: str = ""
    spare_provider_id: str = ""
    alert_id: str = ""
    alert_rule_id: str = ""
    spare_alert_rule_id: str = ""
    evaluation_set_id: str = ""
    spare_evaluation_set_id: str = ""
    case_id: str = ""
    evaluation_run_id: str = ""
    spare_evaluation_run_id: str = ""

    def __post_init__(self) -> None:
        self.document_id = self.owner.upload(f"{self.owner.mark}-log")
        self.paged_document_id = self.owner.upload(f"{self.owner.mark}-pages", pdf=pdf([(self.owner.mark, 12)]))
        self.collection_id, self.chunked_collection_id = self.owner.collection(), self.owner.collection()
        self.owner.place(self.document_id, self.collection_id)
        self.search_id = done(self.owner.call("search/searchDocumentCatalog", {"searchQuery": "what"}))["searchId"]
        self.new_saved_search()
        self.rebuilt_collection_id = self.owner.collection()
        self.owner.rebuild(self.rebuilt_collection_id)
        self.new_document()
        self.new_collection()
        self.new_rebuild()
        self.sync_id = self.owner.sync(self.collection_id)
        self.new_sync()
        self.source_id, self.reported_source_id = self.owner.source(), self.owner.source(ended=False)
        self.new_source()

    @property
    def resource(self) -> Body:
        """The document, as grants and look-ups name it."""
        return {"resourceId": self.document_id, "resourceType": "UPLOADED_DOCUMENT"}

    @property
    def place(self) -> Body:
        """The document in the collection."""
        return {"documentId": self.document_id, "documentCollectionId": self.collection_id}

    @property
    def sync(self) -> Body:
        """The sync, as requests name it."""
        return {"docstoreCredentialId": self.sync_id}

    @property
    def spare_email(self) -> str:
        """The address of a user who owns nothing, beside the user's."""
        return f"spare-{self.email}"

    @property
    def user(self) -> Body:
        """A user of the organization, as admin requests name one."""
        return {"type": "user", "email": self.email}

    def nowhere(self) -> "Things":
        """Things like these that don't exist."""
        unknown = copy(self)
        for name in vars(self):
            if name.endswith("_id"):
                setattr(unknown, name, str(uuid7()))
        unknown.email = f"{uuid4().hex[: self.email.index('@')]}{self.email[self.email.index('@') :]}"
        return unknown

    def ids(self) -> set[str]:
        """Everything by which these things would be known."""
        return {self.owner.mark, *(value for name, value in vars(self).items() if name.endswith("_id") and value)}

    def new_document(self) -> None:
        """Make the spare document anew."""
        self.spare_document_id = self.owner.upload(f"{self.owner.mark}-{next(_numbers)}")

    def new_collection(self) -> None:
        """Make the spare collection anew."""
        self.spare_collection_id = self.owner.collection()

    def new_rebuild(self) -> None:
        """Make a collection anew whose rebuild never ends by itself: its document can't be embedded."""
        self.cancelled_collection_id = self.owner.collection()
        document_id = self.owner.upload(f"{self.owner.mark}-{next(_numbers)}", text=f"What can't {UNKNOWABLE}.")
        self.owner.place(document_id, self.cancelled_collection_id)
        self.owner.rebuild(self.cancelled_collection_id)

    def new_sync(self) -> None:
        """Make the spare sync anew."""
        self.spare_sync_id = self.owner.sync(self.collection_id)

    def new_source(self) -> None:
        """Make the spare source anew."""
        self.spare_source_id = self.owner.source()

    def back_in_collection(self) -> None:
        """Put the document back into its collection."""
        self.owner.place(self.document_id, self.collection_id)

    def new_account(self) -> None:
        """Make the spare service account anew."""
        made = done(self.owner.call("admin/serviceAccounts/create", {"displayName": "Spare"}))
        self.spare_account_id = made["serviceAccountId"]

    def new_client(self) -> None:
        """Make the spare OAuth client anew."""
        self.spare_client_id = done(self.owner.call("admin/oauthClients/create", CLIENT))["clientId"]

    def converse(self) -> None:
        """Have a conversation with the agent."""
        sent = done(self.owner.call("copilots/sendMessage", EXAMPLES["copilots/sendMessage"].body(self)))
        result = sent["sendChatResult"]
        self.conversation_id, self.message_id = result["conversationId"], result["messageId"]

    def new_group(self) -> None:
        """Make the spare group anew."""
        groups = [{"name": f"{self.owner.mark} {next(_numbers)}"}]
        self.spare_group_id = done(self.owner.call("admin/groups/upsert", {"groups": groups}))["groups"][0]["id"]

    def new_saved_search(self) -> None:
        """Save a search anew."""
        self.spare_saved_search_id = done(self.owner.call("search/saveSearch", {"searchQuery": "what"}))[
            "savedSearchId"
        ]

    def new_provider(self) -> None:
        """Make the spare sign-in provider anew."""
        self.spare_provider_id = done(self.owner.call("admin/signInProviders/create", a_provider()))["providerId"]

    def new_alert_rule(self) -> None:
        """Make the spare alert rule anew."""
        self.spare_alert_rule_id = done(self.owner.call("admin/alertRules/create", ALERT_RULE))["alertRuleId"]

    def fail(self) -> None:
        """Make an alert rule, and let a run fail."""
        self.new_provider()
        self.provider_id = self.spare_provider_id
        self.new_provider()
        self.new_alert_rule()
        self.alert_rule_id = self.spare_alert_rule_id
        self.new_alert_rule()
        body = {**EXAMPLES["alerts/reportRun"].body(self), "source": self.owner.mark, "outcome": "FAILED"}
        done(self.owner.call("alerts/reportRun", body))
        self.alert_id = done(self.owner.call("admin/alerts/list", {"pageSize": 1}))["alerts"][0]["alertId"]

    def new_evaluation_set(self) -> None:
        """Make the spare evaluation set anew."""
        made = done(self.owner.call("admin/evaluationSets/create", {"name": f"{self.owner.mark} {next(_numbers)}"}))
        self.spare_evaluation_set_id = made["evaluationSetId"]

    def evaluate(self) -> None:
        """Make an evaluation set with a case and a run."""
        self.new_evaluation_set()
        self.evaluation_set_id = self.spare_evaluation_set_id
        body = EXAMPLES["admin/evaluationSets/putJudgements"].body(self)
        [self.case_id] = done(self.owner.call("admin/evaluationSets/putJudgements", body))["caseIds"]
        self.new_run()
        self.evaluation_run_id = self.spare_evaluation_run_id
        self.new_run()
        self.new_evaluation_set()

    def new_run(self) -> None:
        """Keep the spare run of the evaluation set anew."""
        body = EXAMPLES["admin/evaluationSets/addRun"].body(self)
        self.spare_evaluation_run_id = done(self.owner.call("admin/evaluationSets/addRun", body))["evaluationRunId"]

    def new_agent(self) -> None:
        """Make the spare agent anew."""
        self.spare_agent_id = self.owner.agent()


@dataclass(frozen=True)
class Example:
    """A valid request of an operation.

    `acting` is the member that names the user a key acts for (`about_anyone`: or whom an admin asks about with any key,
    and everybody about themselves); `file` the part that carries a file, of an operation that takes a form; `elsewhere`
    what an admin of another organization is told (None: 200, about nothing); `anew` makes again what a success has used
    up.
    """

    body: Callable[[Things], Body]
    acting: str | None = None
    about_anyone: bool = False
    file: str | None = None
    elsewhere: tuple[int, str] | None = None
    anew: Callable[[Things], None] | None = None

    def send(self, http: httpx.Client, operation: str, body: Body, headers: dict[str, str]) -> httpx.Response:
        """Send a body like that of the example."""
        path = f"/api/v0/{operation}"
        if self.file is None:
            return http.post(path, json=body, headers=headers)
        return http.post(path, data=body, files={self.file: ("notes.txt", b"What was seen.")}, headers=headers)


NO_DOCUMENT = (404, "document_not_found")
NO_COLLECTION = (404, "collection_not_found")
NO_SYNC = (404, "docstore_sync_not_found")
NO_SOURCE = (404, "source_not_found")
NO_RESOURCE = (404, "resource_not_found")
NO_PRINCIPAL = (400, "unknown_principal")
NO_CLIENT = (404, "oauth_client_not_found")
NO_AGENT = (404, "agent_not_found")
NO_CONVERSATION = (404, "conversation_not_found")
NO_MESSAGE = (404, "message_not_found")
NO_JOB = (404, "job_not_found")
NO_EVALUATION_SET = (404, "evaluation_set_not_found")
NO_ALERT = (404, "alert_not_found")
NO_ALERT_RULE = (404, "alert_rule_not_found")
NO_PROVIDER = (404, "sign_in_provider_not_found")
NO_ACCOUNT = (404, "service_account_not_found")
USER_EMAIL = "userEmail"


def _new() -> str:
    return f"Example {next(_numbers)}"


def a_ledger() -> str:
    """The name of a ledger that nobody has."""
    return uuid4().hex[:24]


EXAMPLES: dict[str, Example] = {
    "catalog/uploadFile": Example(lambda _: {"documentExternalId": _new()}, acting="uploadAsUserEmail", file="file"),
    "catalog/uploadDocumentFile": Example(lambda _: {}, file="document"),
    "catalog/uploadDocumentContents": Example(
        lambda _: {"documentExternalId": _new(), "documentName": "Log", "documentContents": "Seen."},
        acting="uploadAsUserEmail",
    ),
    "catalog/planUpload": Example(
        lambda things: {
            "documents": [{"documentExternalId": f"{things.owner.mark}-log", "fingerprint": FINGERPRINT}],
        },
        acting="uploadAsUserEmail",
    ),
    "catalog/reindexDocument": Example(
        lambda things: {"documentId": things.document_id}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "catalog/deleteDocument": Example(
        lambda things: {"documentId": things.spare_document_id},
        acting=USER_EMAIL,
        elsewhere=NO_DOCUMENT,
        anew=Things.new_document,
    ),
    "catalog/getDocument": Example(
        lambda things: {"documentId": things.document_id}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "catalog/listDocuments": Example(lambda _: {"pageSize": 1000}, acting=USER_EMAIL),
    "catalog/listLeftOutFiles": Example(
        lambda things: {"documentId": things.document_id}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "catalog/downloadDocument": Example(
        lambda things: {"documentId": things.document_id}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "catalog/downloadDocumentPage": Example(
        lambda things: {"documentId": things.paged_document_id, "page": 1}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "documentCollections/createDocumentCollection": Example(lambda _: {"collectionName": _new()}, acting=USER_EMAIL),
    "documentCollections/addDocumentToCollection": Example(
        lambda things: {**things.place, "customMetadata": {}}, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "documentCollections/addDocumentChunksToCollection": Example(
        lambda things: {
            "documentId": things.document_id,
            "documentCollectionId": things.chunked_collection_id,
            "chunks": ["What was seen."],
            "customMetadata": {},
        },
        acting=USER_EMAIL,
        elsewhere=NO_DOCUMENT,
    ),
    "documentCollections/reindexDocumentInCollection": Example(
        lambda things: things.place, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "documentCollections/removeDocumentFromCollection": Example(
        lambda things: things.place, acting=USER_EMAIL, elsewhere=NO_DOCUMENT, anew=Things.back_in_collection
    ),
    "documentCollections/deleteDocumentCollection": Example(
        lambda things: {"documentCollectionId": things.spare_collection_id},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
        anew=Things.new_collection,
    ),
    "documentCollections/listDocumentCollections": Example(lambda _: {"pageSize": 1000}, acting=USER_EMAIL),
    "documentCollections/listDocumentsInCollection": Example(
        lambda things: {"documentCollectionId": things.collection_id}, acting=USER_EMAIL, elsewhere=NO_COLLECTION
    ),
    "documentCollections/getDocumentChunks": Example(
        lambda things: things.place, acting=USER_EMAIL, elsewhere=NO_DOCUMENT
    ),
    "documentCollections/startIndexRebuild": Example(
        lambda things: {"documentCollectionId": things.rebuilt_collection_id, "embeddingsModel": MODEL},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
    ),
    "documentCollections/getIndexRebuild": Example(
        lambda things: {"documentCollectionId": things.rebuilt_collection_id},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
    ),
    "documentCollections/listIndexRebuildFailures": Example(
        lambda things: {"documentCollectionId": things.rebuilt_collection_id, "pageSize": 1000},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
    ),
    "documentCollections/cancelIndexRebuild": Example(
        lambda things: {"documentCollectionId": things.cancelled_collection_id},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
        anew=Things.new_rebuild,
    ),
    "documentCollections/docstore/createDocstoreSync": Example(
        lambda things: {
            "documentCollectionId": things.collection_id,
            "docstoreURI": DOCSTORE_URI,
            "config": DOCSTORE_CONFIG,
        },
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
    ),
    "documentCollections/docstore/updateDocstoreSync": Example(
        lambda things: {**things.sync, "docstoreURI": DOCSTORE_URI, "config": DOCSTORE_CONFIG},
        acting=USER_EMAIL,
        elsewhere=NO_SYNC,
    ),
    "documentCollections/docstore/launchDocstoreSync": Example(
        lambda things: things.sync, acting=USER_EMAIL, elsewhere=NO_SYNC
    ),
    "documentCollections/docstore/deleteDocstoreSync": Example(
        lambda things: {"docstoreCredentialId": things.spare_sync_id},
        acting=USER_EMAIL,
        elsewhere=NO_SYNC,
        anew=Things.new_sync,
    ),
    "documentCollections/docstore/getDocstoreSync": Example(
        lambda things: things.sync, acting=USER_EMAIL, elsewhere=NO_SYNC
    ),
    "documentCollections/docstore/listDocstoreSyncs": Example(lambda _: {"pageSize": 1000}, acting=USER_EMAIL),
    "documentCollections/docstore/listDocstoreFailures": Example(
        lambda things: {**things.sync, "pageSize": 1000}, acting=USER_EMAIL, elsewhere=NO_SYNC
    ),
    "sources/reportSource": Example(lambda _: {"ledger": a_ledger(), "source": "/srv/log"}, acting=USER_EMAIL),
    "sources/reportSourceItems": Example(
        lambda things: {"sourceId": things.reported_source_id, "reportNo": 1, "items": [SOURCE_ITEM]},
        acting=USER_EMAIL,
        elsewhere=NO_SOURCE,
    ),
    "sources/endSourceReport": Example(
        lambda things: {"sourceId": things.source_id, "reportNo": 1}, acting=USER_EMAIL, elsewhere=NO_SOURCE
    ),
    "sources/listSources": Example(lambda _: {"pageSize": 1000}, acting=USER_EMAIL),
    "sources/listSourceItems": Example(
        lambda things: {"sourceId": things.source_id}, acting=USER_EMAIL, elsewhere=NO_SOURCE
    ),
    "sources/ignoreSourceItems": Example(
        lambda things: {"sourceId": things.source_id, "names": ["line 12"]}, acting=USER_EMAIL, elsewhere=NO_SOURCE
    ),
    "sources/restoreSourceItems": Example(
        lambda things: {"sourceId": things.source_id, "names": ["line 12"]}, acting=USER_EMAIL, elsewhere=NO_SOURCE
    ),
    "sources/removeSource": Example(
        lambda things: {"sourceId": things.spare_source_id},
        acting=USER_EMAIL,
        elsewhere=NO_SOURCE,
        anew=Things.new_source,
    ),
    "search/searchDocumentCatalog": Example(lambda _: {"searchQuery": "what was seen"}, acting=USER_EMAIL),
    "search/searchDocumentCollection": Example(
        lambda things: {"documentCollectionId": things.collection_id, "searchQuery": "what was seen"},
        acting=USER_EMAIL,
        elsewhere=NO_COLLECTION,
    ),
    "search/listRecentSearches": Example(lambda _: {}),
    "search/saveSearch": Example(lambda _: {"searchQuery": "what was seen"}),
    "search/listSavedSearches": Example(lambda _: {}),
    "search/deleteSavedSearch": Example(
        lambda things: {"savedSearchId": things.spare_saved_search_id},
        elsewhere=(404, "saved_search_not_found"),
        anew=Things.new_saved_search,
    ),
    "search/submitSearchFeedback": Example(
        lambda things: {"searchId": things.search_id, "feedback": "THUMBS_UP"},
        acting=USER_EMAIL,
        elsewhere=(404, "search_not_found"),
    ),
    "permissions/listAuthorizedResources": Example(lambda _: {"action": "READ", "pageSize": 1000}, acting=USER_EMAIL),
    "permissions/listAuthorizedPrincipalsForResource": Example(
        lambda things: {"resource": things.resource, "action": "READ"}, elsewhere=NO_RESOURCE
    ),
    "permissions/explainAuthorization": Example(
        lambda things: {"resource": things.resource, "principal": things.user, "action": "READ"},
        elsewhere=NO_RESOURCE,
    ),
    "permissions/checkResourceAuthorizationForUser": Example(
        lambda things: {"resource": things.resource, "action": "READ"}, acting=USER_EMAIL, about_anyone=True
    ),
    "permissions/checkBulkResourcesAuthorizationForUser": Example(
        lambda things: {"resources": [things.resource], "action": "READ"}, acting=USER_EMAIL, about_anyone=True
    ),
    "admin/organization/get": Example(lambda _: {}),
    "admin/organization/update": Example(lambda _: {}),
    "admin/users/upsert": Example(lambda _: {"users": [{"email": "new@example.test"}]}),
    "admin/users/list": Example(lambda _: {"pageSize": 1000}),
    "admin/users/count": Example(lambda _: {}),
    "admin/users/invite": Example(lambda things: {"email": things.email}, elsewhere=(400, "unknown_user")),
    "admin/users/resetSecondFactor": Example(lambda things: {"email": things.email}, elsewhere=(400, "unknown_user")),
    "admin/groups/upsert": Example(
        lambda things: {"groups": [{"name": "Crew", "members": [things.user]}]}, elsewhere=NO_PRINCIPAL
    ),
    "admin/groups/list": Example(lambda _: {"pageSize": 1000}),
    "admin/groups/addMembers": Example(
        lambda things: {"groupId": things.group_id, "members": [things.user]}, elsewhere=(404, "group_not_found")
    ),
    "admin/groups/removeMembers": Example(
        lambda things: {"groupId": things.group_id, "members": [things.user]}, elsewhere=(404, "group_not_found")
    ),
    "admin/groups/listMembers": Example(
        lambda things: {"groupId": things.group_id}, elsewhere=(404, "group_not_found")
    ),
    "admin/groups/listMemberships": Example(lambda things: {"member": things.user}, elsewhere=NO_PRINCIPAL),
    "admin/groups/previewLosses": Example(
        lambda things: {"groupId": things.group_id}, elsewhere=(404, "group_not_found")
    ),
    "admin/groups/delete": Example(
        lambda things: {"groupId": things.spare_group_id}, elsewhere=(404, "group_not_found"), anew=Things.new_group
    ),
    "admin/grants/set": Example(lambda things: {"resource": things.resource, "grants": []}, elsewhere=NO_RESOURCE),
    "admin/grants/setMany": Example(
        lambda things: {"resources": [{"resource": things.resource, "grants": []}]}, elsewhere=NO_RESOURCE
    ),
    "admin/grants/list": Example(lambda things: {"resource": things.resource}, elsewhere=NO_RESOURCE),
    "admin/access/getState": Example(lambda _: {}),
    "admin/access/listResources": Example(lambda _: {"pageSize": 1000}),
    "admin/access/countResources": Example(lambda _: {}),
    "admin/access/listHolders": Example(lambda _: {"pageSize": 1000}),
    "admin/access/listGroupPeople": Example(lambda _: {"pageSize": 1000}),
    "admin/owners/transfer": Example(
        lambda things: {"owner": {"type": "user", "email": things.spare_email}, "newOwner": things.user},
        elsewhere=NO_PRINCIPAL,
    ),
    "admin/users/planOffboarding": Example(
        lambda things: {"email": things.spare_email}, elsewhere=(400, "unknown_user")
    ),
    "admin/users/offboard": Example(lambda things: {"email": things.spare_email}, elsewhere=(400, "unknown_user")),
    "admin/apiKeys/create": Example(
        lambda things: {"name": "Deck", "ownerEmail": things.email}, elsewhere=(400, "unknown_user")
    ),
    "admin/apiKeys/list": Example(lambda _: {"pageSize": 1000}),
    "admin/apiKeys/revoke": Example(
        lambda things: {"apiKeyId": things.api_key_id}, elsewhere=(404, "api_key_not_found")
    ),
    "admin/scimTokens/create": Example(lambda _: {"name": "Entra"}),
    "admin/scimTokens/list": Example(lambda _: {"pageSize": 1000}),
    "admin/scimTokens/revoke": Example(
        lambda things: {"tokenId": things.scim_token_id}, elsewhere=(404, "token_not_found")
    ),
    "admin/sessions/list": Example(lambda things: {"email": things.email}, elsewhere=(400, "unknown_user")),
    "admin/sessions/end": Example(lambda things: {"email": things.email}, elsewhere=(400, "unknown_user")),
    "admin/auditLog/query": Example(lambda _: {"pageSize": 1000}),
    "admin/searchLog/query": Example(lambda _: {"pageSize": 1000}),
    "admin/searchLog/summarize": Example(
        lambda _: {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z", "bucket": "week"}
    ),
    "admin/questionLog/query": Example(lambda _: {"pageSize": 1000}),
    "admin/questionLog/summarize": Example(
        lambda _: {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z", "bucket": "week"}
    ),
    "admin/questionLog/rank": Example(
        lambda _: {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z", "by": "GROUP"}
    ),
    "admin/status/get": Example(lambda _: {}),
    "admin/serviceAccounts/create": Example(lambda _: {"displayName": "Bosun"}),
    "admin/serviceAccounts/list": Example(lambda _: {"pageSize": 1000}),
    "admin/serviceAccounts/delete": Example(
        lambda things: {"serviceAccountId": things.spare_account_id}, elsewhere=NO_ACCOUNT, anew=Things.new_account
    ),
    "admin/serviceAccountTokens/mint": Example(
        lambda things: {"serviceAccountId": things.account_id, "name": "Deck", "scopes": []}, elsewhere=NO_ACCOUNT
    ),
    "admin/serviceAccountTokens/list": Example(lambda _: {"pageSize": 1000}),
    "admin/serviceAccountTokens/revoke": Example(
        lambda things: {"tokenId": things.token_id}, elsewhere=(404, "token_not_found")
    ),
    "admin/serviceAccountTokens/previewReach": Example(
        lambda things: {"serviceAccountId": things.account_id, "scopes": []}, elsewhere=NO_ACCOUNT
    ),
    "admin/oauthClients/create": Example(lambda _: CLIENT),
    "admin/oauthClients/request": Example(lambda _: CLIENT),
    "admin/oauthClients/list": Example(lambda _: {"pageSize": 1000}),
    "admin/oauthClients/update": Example(
        lambda things: {"clientId": things.client_id, "name": "Log"}, elsewhere=NO_CLIENT
    ),
    "admin/oauthClients/approve": Example(lambda things: {"clientId": things.client_id}, elsewhere=NO_CLIENT),
    "admin/oauthClients/rotateSecret": Example(lambda things: {"clientId": things.client_id}, elsewhere=NO_CLIENT),
    "admin/oauthClients/delete": Example(
        lambda things: {"clientId": things.spare_client_id}, elsewhere=NO_CLIENT, anew=Things.new_client
    ),
    "admin/oauthClients/listConsents": Example(lambda things: {"clientId": things.client_id, "pageSize": 1000}),
    "admin/oauthClients/withdrawConsents": Example(lambda things: {"clientId": things.client_id}, elsewhere=NO_CLIENT),
    "admin/agents/create": Example(
        lambda things: {"name": _new(), "collectionIds": [things.collection_id]}, elsewhere=(400, "unknown_collection")
    ),
    "admin/agents/update": Example(
        lambda things: {"agentId": things.agent_id, "instructions": "Be brief."}, elsewhere=NO_AGENT
    ),
    "admin/agents/list": Example(lambda _: {"pageSize": 1000}),
    "admin/agents/delete": Example(
        lambda things: {"agentId": things.spare_agent_id}, elsewhere=NO_AGENT, anew=Things.new_agent
    ),
    "admin/agents/deploy": Example(
        lambda things: {"agentId": things.spare_agent_id, "principals": [things.user]}, elsewhere=NO_AGENT
    ),
    "admin/evaluationSets/create": Example(
        lambda things: {"name": _new(), "documentCollectionId": things.collection_id}, elsewhere=NO_COLLECTION
    ),
    "admin/evaluationSets/list": Example(lambda _: {"pageSize": 1000}),
    "admin/evaluationSets/update": Example(
        lambda things: {"evaluationSetId": things.evaluation_set_id, "name": _new()}, elsewhere=NO_EVALUATION_SET
    ),
    "admin/evaluationSets/delete": Example(
        lambda things: {"evaluationSetId": things.spare_evaluation_set_id},
        elsewhere=NO_EVALUATION_SET,
        anew=Things.new_evaluation_set,
    ),
    "admin/evaluationSets/putJudgements": Example(
        lambda things: {
            "evaluationSetId": things.evaluation_set_id,
            "cases": [
                {"question": "What was seen?", "judgements": [{"documentExternalId": "log", "grade": 2}]},
            ],
        },
        elsewhere=NO_EVALUATION_SET,
    ),
    "admin/evaluationSets/removeJudgements": Example(
        lambda things: {
            "evaluationSetId": things.evaluation_set_id,
            "caseId": things.case_id,
            "documentExternalIds": ["log"],
        },
        elsewhere=NO_EVALUATION_SET,
    ),
    "admin/evaluationSets/listCases": Example(
        lambda things: {"evaluationSetId": things.evaluation_set_id}, elsewhere=NO_EVALUATION_SET
    ),
    "admin/evaluationSets/addRun": Example(
        lambda things: {
            "evaluationSetId": things.evaluation_set_id,
            "mode": "HYBRID",
            "results": [{"caseId": things.case_id, "ndcg": 1, "recall": 1, "reciprocalRank": 1, "found": ["log"]}],
        },
        elsewhere=NO_EVALUATION_SET,
    ),
    "admin/evaluationSets/listRuns": Example(
        lambda things: {"evaluationSetId": things.evaluation_set_id, "pageSize": 1000}, elsewhere=NO_EVALUATION_SET
    ),
    "admin/evaluationSets/listResults": Example(
        lambda things: {
            "evaluationSetId": things.evaluation_set_id,
            "evaluationRunId": things.evaluation_run_id,
            "pageSize": 1000,
        },
        elsewhere=NO_EVALUATION_SET,
    ),
    "admin/evaluationSets/deleteRun": Example(
        lambda things: {
            "evaluationSetId": things.evaluation_set_id,
            "evaluationRunId": things.spare_evaluation_run_id,
        },
        elsewhere=NO_EVALUATION_SET,
        anew=Things.new_run,
    ),
    "copilots/sendMessage": Example(
        lambda things: {"agentId": things.agent_id, "message": "What was seen?"}, acting=USER_EMAIL, elsewhere=NO_AGENT
    ),
    "copilots/streamMessage": Example(
        lambda things: {"agentId": things.agent_id, "message": "What was seen?"}, acting=USER_EMAIL, elsewhere=NO_AGENT
    ),
    "copilots/createConversation": Example(
        lambda things: {"agentId": things.agent_id}, acting=USER_EMAIL, elsewhere=NO_AGENT
    ),
    "copilots/provideMessageFeedback": Example(
        lambda things: {
            "agentId": things.agent_id,
            "messageId": things.message_id,
            "messageFeedback": {"feedback": "POSITIVE"},
        },
        acting=USER_EMAIL,
        elsewhere=NO_MESSAGE,
    ),
    "alerts/reportRun": Example(
        lambda _: {
            "runId": str(uuid4()),
            "subject": a_ledger(),
            "flow": "bulk-upload",
            "source": "/srv/handbook",
            "outcome": "RUNNING",
        }
    ),
    "alerts/reportSchedules": Example(
        lambda _: {"schedules": [{"subject": "nightly", "name": "Nightly", "dueAt": "2036-01-31T09:30:00Z"}]}
    ),
    "admin/signInProviders/create": Example(lambda _: a_provider()),
    "admin/signInProviders/list": Example(lambda _: {"pageSize": 1000}),
    "admin/signInProviders/get": Example(lambda things: {"providerId": things.provider_id}, elsewhere=NO_PROVIDER),
    "admin/signInProviders/update": Example(
        lambda things: {"providerId": things.provider_id, "createAccounts": True}, elsewhere=NO_PROVIDER
    ),
    "admin/signInProviders/delete": Example(
        lambda things: {"providerId": things.spare_provider_id}, elsewhere=NO_PROVIDER, anew=Things.new_provider
    ),
    "admin/signInProviders/test": Example(lambda things: {"providerId": things.provider_id}, elsewhere=NO_PROVIDER),
    "admin/alertRules/create": Example(lambda _: ALERT_RULE),
    "admin/alertRules/list": Example(lambda _: {"pageSize": 1000}),
    "admin/alertRules/update": Example(
        lambda things: {"alertRuleId": things.alert_rule_id, "enabled": False}, elsewhere=NO_ALERT_RULE
    ),
    "admin/alertRules/delete": Example(
        lambda things: {"alertRuleId": things.spare_alert_rule_id},
        elsewhere=NO_ALERT_RULE,
        anew=Things.new_alert_rule,
    ),
    "admin/alertRules/test": Example(lambda things: {"alertRuleId": things.alert_rule_id}, elsewhere=NO_ALERT_RULE),
    "admin/alertRules/listDeliveries": Example(
        lambda things: {"alertRuleId": things.alert_rule_id}, elsewhere=NO_ALERT_RULE
    ),
    "admin/alerts/end": Example(lambda things: {"alertId": things.alert_id}, elsewhere=NO_ALERT),
    "admin/alerts/list": Example(lambda _: {"pageSize": 1000}),
}


@dataclass(frozen=True)
class V1Example:
    """A valid request of an operation that v1 alone has: a GET with parameters, or a POST with a body."""

    parameters: Callable[[Things], Body] = lambda _: {}
    body: Callable[[Things], Body] | None = None
    path: Callable[[Things], str] | None = None
    elsewhere: tuple[int, str] | None = None

    def send(
        self, service: RunningService, operation: str, token: str, things: Things, **more: object
    ) -> httpx.Response:
        """Send it with a credential, and further parameters or members."""
        url = f"{service.base_url}/api/v1/{self.path(things) if self.path else operation}"
        headers = {"Authorization": f"Bearer {token}"}
        if self.body is None:
            return httpx.get(url, params={**self.parameters(things), **more}, headers=headers, timeout=60)
        return httpx.post(url, json={**self.body(things), **more}, headers=headers, timeout=60)


V1_EXAMPLES: dict[str, V1Example] = {
    "me": V1Example(),
    "agents": V1Example(lambda _: {"pageSize": 1000}),
    "agents/sendMessage": V1Example(
        body=lambda things: {
            "agentId": things.agent_id,
            "conversation": {"type": "new"},
            "message": "What was seen?",
        },
        elsewhere=NO_AGENT,
    ),
    "agents/fetchAgentResponse": V1Example(lambda things: {"jobId": things.message_id}, elsewhere=NO_JOB),
    "agents/streamAgentResponse": V1Example(lambda things: {"jobId": things.message_id}, elsewhere=NO_JOB),
    "agents/provideMessageFeedback": V1Example(
        body=EXAMPLES["copilots/provideMessageFeedback"].body, elsewhere=NO_MESSAGE
    ),
    "conversations": V1Example(lambda _: {"pageSize": 1000}),
    "conversations/{conversationId}": V1Example(
        path=lambda things: f"conversations/{things.conversation_id}", elsewhere=NO_CONVERSATION
    ),
}
