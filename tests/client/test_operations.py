"""Every operation sends the wire's request, and reads the wire's answer."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from carrel import InvalidArgumentError, RawResponse, UnexpectedResponseError
from carrel._operations import DownloadOperation, FlowOperation, ListOperation, Operation
from carrel.resources import (
    admin,
    alerts,
    catalog,
    copilots,
    docstore,
    document_collections,
    index_rebuilds,
    permissions,
    search,
    sources,
)
from carrel.wire.common import PagedResponse, ResourceIdentifier, ResourceType
from tests.client.conftest import API_KEY, Caller, MakeCaller
from tests.client.samples import (
    AGENT_ROW,
    API_KEY_ROW,
    AT,
    AUDIT_LOG_ID,
    COLLECTION_ID,
    CONSENT_ROW,
    CONVERSATION_ID,
    DOCUMENT,
    DOCUMENT_ID,
    EVALUATION_RUN_ROW,
    EVALUATION_SET_ROW,
    FOUND,
    FOUND_CHUNKS,
    GRANTS,
    GROUP_ROW,
    INDEXED,
    JOB_ID,
    OAUTH_CLIENT_ROW,
    ORGANIZATION,
    OTHER_ID,
    PATH,
    REACH,
    REBUILD_ROW,
    RESOURCE,
    SCIM_TOKEN_ROW,
    SENT_CHAT,
    SERVICE_ACCOUNT_ROW,
    SOURCE_ROW,
    SYNC_ROW,
    TOKEN_ROW,
    UPLOADED,
    USER,
    USER_ROW,
)
from tests.client.server import Server, raw

IN_COLLECTION = {"document_id": DOCUMENT_ID, "document_collection_id": COLLECTION_ID}
IN_COLLECTION_WIRE = {"documentId": DOCUMENT_ID, "documentCollectionId": COLLECTION_ID}
OAUTH_CLIENT: dict[str, list[str]] = {
    "redirect_uris": ["https://intranet.example.com/callback"],
    "scopes": ["api:agent:message:*"],
}
ADA = {"type": "user", "email": "ada@example.com"}
BEN = {"type": "user", "email": "ben@example.com"}
TEAM = {"type": "group", "id": OTHER_ID}
HANDOVER: dict[str, Any] = {
    "transferred": [{"resourceType": "BOX_FILE", "count": 3}],
    "remaining": [{"resourceType": "BOX_FILE", "count": 2}],
}

COUNTED = {"questions": 9, "unanswered": 2, "failed": 1, "thumbsUp": 3, "thumbsDown": 1, "askers": 3}

Case = tuple[str, Callable[[Any], Any], dict[str, Any], dict[str, Any]]

DOCSTORE = "documentCollections/docstore"
SYNC_CONFIG = {
    "sync_name": "things",
    "collection_name": "things",
    "source_fields": {"body": "text", "source_name": "title"},
    "filter_expression": {"state": {"$in": ["published"]}},
    "internal_public": True,
}
SYNC_CONFIG_WIRE = {
    "syncName": "things",
    "collectionName": "things",
    "sourceFields": {"body": "text", "sourceName": "title"},
    "filterExpression": {"state": {"$in": ["published"]}},
    "internalPublic": True,
    "deleteMissing": True,
    "deleteLimitPercent": 20,
}
SYNC_URI = "mongodb://reader:secret@mongo.example.com/shop"
SYNC_LAUNCHED = {"docstoreCredentialId": OTHER_ID, "resourceId": OTHER_ID, "syncLaunched": True}

LEDGER = "5f0c6a1e9b3d4c7f8a2e1b0d"
ALERT_RULE_ROW: dict[str, Any] = {
    "alertRuleId": OTHER_ID,
    "kinds": ["RUN_FAILED"],
    "webhookUrl": "https://hooks.example.com/carrel",
    "recipients": [],
    "enabled": True,
    "createdAt": AT,
}
PROVIDER_ROW: dict[str, Any] = {
    "providerId": OTHER_ID,
    "name": "Work",
    "issuer": "https://login.example.com",
    "clientId": "carrel",
    "hasClientSecret": True,
    "domains": ["example.com"],
    "trustAddresses": False,
    "groupsClaim": "NONE",
    "createAccounts": False,
    "signOutThere": False,
    "redirectUri": "https://carrel.example.com/api/oauth/upstream/callback",
    "logoutRedirectUri": "https://carrel.example.com/account/sign-in",
    "backchannelLogoutUri": f"https://carrel.example.com/api/oauth/upstream/{OTHER_ID}/logout",
    "createdAt": AT,
}
QUARANTINED: dict[str, Any] = {
    "documentExternalId": "handbook/travel",
    "place": "travel.md",
    "code": "unreadable_document",
    "message": "It is encrypted.",
    "fingerprint": "f",
    "since": AT,
    "ignored": False,
}
IN_QUARANTINE = {"sourceId": OTHER_ID, "names": ["handbook/travel"]}

JUDGEMENT = {"documentExternalId": "travel", "grade": 2}
CASE_RESULT: dict[str, Any] = {
    "caseId": OTHER_ID,
    "ndcg": 0.5,
    "recall": 1.0,
    "reciprocalRank": 0.25,
    "found": ["travel"],
}

SINGLE: list[Case] = [
    (
        "admin/evaluationSets/create",
        lambda c: c.admin.evaluation_sets.create("Travel", document_collection_id=COLLECTION_ID),
        {"name": "Travel", "documentCollectionId": COLLECTION_ID},
        EVALUATION_SET_ROW,
    ),
    (
        "admin/evaluationSets/update",
        lambda c: c.admin.evaluation_sets.update(OTHER_ID, name="Trips"),
        {"evaluationSetId": OTHER_ID, "name": "Trips"},
        EVALUATION_SET_ROW,
    ),
    (
        "admin/evaluationSets/delete",
        lambda c: c.admin.evaluation_sets.delete(OTHER_ID),
        {"evaluationSetId": OTHER_ID},
        {"evaluationSetId": OTHER_ID},
    ),
    (
        "admin/evaluationSets/putJudgements",
        lambda c: c.admin.evaluation_sets.put_judgements(
            OTHER_ID, [{"question": " Dogs? ", "judgements": [{"document_external_id": "travel", "grade": 2}]}]
        ),
        {"evaluationSetId": OTHER_ID, "cases": [{"question": "Dogs?", "judgements": [JUDGEMENT]}]},
        {"caseIds": [OTHER_ID]},
    ),
    (
        "admin/evaluationSets/removeJudgements",
        lambda c: c.admin.evaluation_sets.remove_judgements(OTHER_ID, OTHER_ID, document_external_ids=["travel"]),
        {"evaluationSetId": OTHER_ID, "caseId": OTHER_ID, "documentExternalIds": ["travel"]},
        {"evaluationSetId": OTHER_ID},
    ),
    (
        "admin/evaluationSets/addRun",
        lambda c: c.admin.evaluation_sets.add_run(OTHER_ID, [CASE_RESULT], mode="LEXICAL", note="Before"),
        {"evaluationSetId": OTHER_ID, "mode": "LEXICAL", "note": "Before", "results": [CASE_RESULT]},
        EVALUATION_RUN_ROW,
    ),
    (
        "admin/evaluationSets/deleteRun",
        lambda c: c.admin.evaluation_sets.delete_run(OTHER_ID, OTHER_ID),
        {"evaluationSetId": OTHER_ID, "evaluationRunId": OTHER_ID},
        {"evaluationRunId": OTHER_ID},
    ),
    (
        "sources/reportSource",
        lambda c: c.sources.report_source(
            LEDGER, "/srv/handbook", document_collection_id=COLLECTION_ID, fingerprint="f"
        ),
        {
            "ledger": LEDGER,
            "source": "/srv/handbook",
            "documentCollectionId": COLLECTION_ID,
            "fingerprint": "f",
        },
        {"sourceId": OTHER_ID, "reportNo": 2},
    ),
    (
        "sources/reportSourceItems",
        lambda c: c.sources.report_source_items(OTHER_ID, 2, [QUARANTINED]),
        {"sourceId": OTHER_ID, "reportNo": 2, "items": [QUARANTINED]},
        {"sourceId": OTHER_ID, "reportNo": 2},
    ),
    (
        "sources/endSourceReport",
        lambda c: c.sources.end_source_report(OTHER_ID, 2),
        {"sourceId": OTHER_ID, "reportNo": 2},
        SOURCE_ROW,
    ),
    (
        "sources/ignoreSourceItems",
        lambda c: c.sources.ignore_source_items(OTHER_ID, ["handbook/travel"]),
        IN_QUARANTINE,
        {"sourceId": OTHER_ID, "unknownNames": ["handbook/travel"]},
    ),
    (
        "sources/restoreSourceItems",
        lambda c: c.sources.restore_source_items(OTHER_ID, ["handbook/travel"]),
        IN_QUARANTINE,
        {"sourceId": OTHER_ID, "unknownNames": []},
    ),
    (
        "sources/removeSource",
        lambda c: c.sources.remove_source(OTHER_ID),
        {"sourceId": OTHER_ID},
        {"sourceId": OTHER_ID},
    ),
    (
        "documentCollections/startIndexRebuild",
        lambda c: c.document_collections.index_rebuilds.start_index_rebuild(
            COLLECTION_ID, embeddings_model="large", force=True
        ),
        {"documentCollectionId": COLLECTION_ID, "embeddingsModel": "large", "force": True},
        REBUILD_ROW,
    ),
    (
        "documentCollections/getIndexRebuild",
        lambda c: c.document_collections.index_rebuilds.get_index_rebuild(),
        {},
        REBUILD_ROW,
    ),
    (
        "documentCollections/cancelIndexRebuild",
        lambda c: c.document_collections.index_rebuilds.cancel_index_rebuild(COLLECTION_ID),
        {"documentCollectionId": COLLECTION_ID},
        {**REBUILD_ROW, "status": "CANCELLED", "finishedAt": AT},
    ),
    (
        f"{DOCSTORE}/createDocstoreSync",
        lambda c: c.document_collections.docstore.create_docstore_sync(
            COLLECTION_ID, docstore_uri=SYNC_URI, config=SYNC_CONFIG
        ),
        {"documentCollectionId": COLLECTION_ID, "docstoreURI": SYNC_URI, "config": SYNC_CONFIG_WIRE},
        SYNC_LAUNCHED,
    ),
    (
        f"{DOCSTORE}/updateDocstoreSync",
        lambda c: c.document_collections.docstore.update_docstore_sync(
            OTHER_ID, docstore_uri=SYNC_URI, config=SYNC_CONFIG
        ),
        {"docstoreCredentialId": OTHER_ID, "docstoreURI": SYNC_URI, "config": SYNC_CONFIG_WIRE},
        SYNC_LAUNCHED,
    ),
    (
        f"{DOCSTORE}/launchDocstoreSync",
        lambda c: c.document_collections.docstore.launch_docstore_sync(OTHER_ID),
        {"docstoreCredentialId": OTHER_ID},
        SYNC_LAUNCHED,
    ),
    (
        f"{DOCSTORE}/getDocstoreSync",
        lambda c: c.document_collections.docstore.get_docstore_sync(OTHER_ID),
        {"docstoreCredentialId": OTHER_ID},
        SYNC_ROW,
    ),
    (
        f"{DOCSTORE}/deleteDocstoreSync",
        lambda c: c.document_collections.docstore.delete_docstore_sync(OTHER_ID),
        {"docstoreCredentialId": OTHER_ID},
        {"docstoreCredentialId": OTHER_ID},
    ),
    (
        "catalog/planUpload",
        lambda c: c.catalog.plan_upload([{"document_external_id": "a", "fingerprint": "1"}]),
        {"documents": [{"documentExternalId": "a", "fingerprint": "1"}]},
        {"documents": [{"documentExternalId": "a", "action": "CREATE"}]},
    ),
    (
        "catalog/getDocument",
        lambda c: c.catalog.get_document(DOCUMENT_ID, user_email="ada@example.com"),
        {"documentId": DOCUMENT_ID, "userEmail": "ada@example.com"},
        {**DOCUMENT, "versions": [], "indexedIn": []},
    ),
    (
        "catalog/reindexDocument",
        lambda c: c.catalog.reindex_document(DOCUMENT_ID),
        {"documentId": DOCUMENT_ID},
        {"documentId": DOCUMENT_ID, "documentVersion": 2, "indexing": "RUNNING"},
    ),
    (
        "catalog/deleteDocument",
        lambda c: c.catalog.delete_document(DOCUMENT_ID),
        {"documentId": DOCUMENT_ID},
        {"documentId": DOCUMENT_ID},
    ),
    (
        "documentCollections/createDocumentCollection",
        lambda c: c.document_collections.create_document_collection(
            "Policies", custom_metadata_schema={"fields": [{"name": "team", "type": "STRING"}]}
        ),
        {
            "collectionName": "Policies",
            "distanceMetric": "COSINE",
            "customMetadataSchema": {"fields": [{"name": "team", "type": "STRING"}]},
        },
        {"documentCollectionId": COLLECTION_ID},
    ),
    (
        "documentCollections/deleteDocumentCollection",
        lambda c: c.document_collections.delete_document_collection(COLLECTION_ID),
        {"documentCollectionId": COLLECTION_ID},
        {"documentCollectionId": COLLECTION_ID},
    ),
    (
        "documentCollections/addDocumentToCollection",
        lambda c: c.document_collections.add_document_to_collection(**IN_COLLECTION, custom_metadata={"team": "ops"}),
        {**IN_COLLECTION_WIRE, "customMetadata": {"team": "ops"}},
        INDEXED,
    ),
    (
        "documentCollections/addDocumentChunksToCollection",
        lambda c: c.document_collections.add_document_chunks_to_collection(
            **IN_COLLECTION, chunks=["one", "two"], custom_metadata={}
        ),
        {**IN_COLLECTION_WIRE, "chunks": ["one", "two"], "customMetadata": {}},
        INDEXED,
    ),
    (
        "documentCollections/reindexDocumentInCollection",
        lambda c: c.document_collections.reindex_document_in_collection(**IN_COLLECTION),
        IN_COLLECTION_WIRE,
        INDEXED,
    ),
    (
        "documentCollections/removeDocumentFromCollection",
        lambda c: c.document_collections.remove_document_from_collection(**IN_COLLECTION),
        IN_COLLECTION_WIRE,
        IN_COLLECTION_WIRE,
    ),
    (
        "search/searchDocumentCatalog",
        lambda c: c.search.search_document_catalog(
            "trains",
            max_results=5,
            mode="LEXICAL",
            resource_types=["CONFLUENCE_PAGE"],
            metadata_filters=[{"field": "team", "operator": "==", "value": "ops"}],
        ),
        {
            "searchQuery": "trains",
            "searchOptions": {
                "maxResults": 5,
                "mode": "LEXICAL",
                "resourceTypes": ["CONFLUENCE_PAGE"],
                "metadataFilters": [{"field": "team", "operator": "==", "value": "ops"}],
            },
        },
        FOUND,
    ),
    (
        "search/searchDocumentCollection",
        lambda c: c.search.search_document_collection(
            "trains", document_collection_id=COLLECTION_ID, max_chunks=3, threshold=0.2
        ),
        {
            "documentCollectionId": COLLECTION_ID,
            "searchQuery": "trains",
            "structuredQueryFilters": [],
            "searchOptions": {"maxChunks": 3, "mergeContents": False, "threshold": 0.2, "mode": "HYBRID"},
        },
        FOUND_CHUNKS,
    ),
    (
        "search/submitSearchFeedback",
        lambda c: c.search.submit_search_feedback(search_id=OTHER_ID, feedback="THUMBS_UP", comments="Just it"),
        {"searchId": OTHER_ID, "feedback": "THUMBS_UP", "comments": "Just it"},
        {"auditLogId": OTHER_ID},
    ),
    (
        "search/listRecentSearches",
        lambda c: c.search.list_recent_searches(max_searches=5),
        {"maxSearches": 5},
        {"searches": [{"searchQuery": "night train", "mode": "HYBRID", "at": AT}]},
    ),
    (
        "search/saveSearch",
        lambda c: c.search.save_search("night train", document_collection_id=OTHER_ID, mode="LEXICAL"),
        {"searchQuery": "night train", "documentCollectionId": OTHER_ID, "mode": "LEXICAL", "metadataFilters": []},
        {"savedSearchId": OTHER_ID},
    ),
    (
        "search/listSavedSearches",
        lambda c: c.search.list_saved_searches(),
        {},
        {
            "searches": [
                {
                    "savedSearchId": OTHER_ID,
                    "searchQuery": "night train",
                    "mode": "LEXICAL",
                    "metadataFilters": [{"field": "year", "operator": ">=", "value": "2024"}],
                    "savedAt": AT,
                }
            ]
        },
    ),
    (
        "search/deleteSavedSearch",
        lambda c: c.search.delete_saved_search(OTHER_ID),
        {"savedSearchId": OTHER_ID},
        {},
    ),
    ("admin/organization/get", lambda c: c.admin.organization.get(), {}, ORGANIZATION),
    (
        "admin/organization/update",
        lambda c: c.admin.organization.update(
            service_accounts_enabled=True, second_factor="ADMINS", enable_reranking=True, enable_query_model=False
        ),
        {"serviceAccountsEnabled": True, "secondFactor": "ADMINS", "enableReranking": True, "enableQueryModel": False},
        ORGANIZATION,
    ),
    (
        "admin/organization/update",
        lambda c: c.admin.organization.update(
            added_client_document_hosts=["claude.ai"], removed_client_document_hosts=["vscode.dev"]
        ),
        {"addedClientDocumentHosts": ["claude.ai"], "removedClientDocumentHosts": ["vscode.dev"]},
        ORGANIZATION,
    ),
    (
        "admin/users/upsert",
        lambda c: c.admin.users.upsert([{"email": "ada@example.com", "is_admin": True, "password": "correct horse"}]),
        {"users": [{"email": "ada@example.com", "isAdmin": True, "password": "correct horse"}]},
        {"users": [USER_ROW]},
    ),
    (
        "admin/users/count",
        lambda c: c.admin.users.count(signed_in=False, in_group=True),
        {"signedIn": False, "inGroup": True},
        {"count": 3},
    ),
    (
        "admin/users/invite",
        lambda c: c.admin.users.invite("ada@example.com"),
        {"email": "ada@example.com"},
        {"url": "https://carrel.example.com/account/invitation?token=x", "expiresAt": AT},
    ),
    (
        "admin/groups/upsert",
        lambda c: c.admin.groups.upsert([{"name": "Ops", "external_id": "ops", "members": [ADA]}]),
        {"groups": [{"name": "Ops", "externalId": "ops", "members": [ADA]}]},
        {"groups": [GROUP_ROW]},
    ),
    (
        "admin/groups/previewLosses",
        lambda c: c.admin.groups.preview_losses(OTHER_ID, [ADA]),
        {"groupId": OTHER_ID, "members": [ADA]},
        {
            "personCount": 1,
            "losses": [{"principal": USER, "counts": [{"resourceType": "AGENT", "count": 2}]}],
            "complete": True,
        },
    ),
    (
        "admin/groups/delete",
        lambda c: c.admin.groups.delete(OTHER_ID),
        {"groupId": OTHER_ID},
        {"groupId": OTHER_ID, "memberCount": 3, "resourceCount": 12},
    ),
    (
        "admin/groups/addMembers",
        lambda c: c.admin.groups.add_members(OTHER_ID, [ADA]),
        {"groupId": OTHER_ID, "members": [ADA]},
        {"memberCount": 1},
    ),
    (
        "admin/groups/removeMembers",
        lambda c: c.admin.groups.remove_members(OTHER_ID, [{"type": "serviceAccount", "id": OTHER_ID}]),
        {"groupId": OTHER_ID, "members": [{"type": "serviceAccount", "id": OTHER_ID}]},
        {"memberCount": 0},
    ),
    (
        "admin/access/getState",
        lambda c: c.admin.access.get_state(since="a.1"),
        {"since": "a.1"},
        {"state": "b.2", "changed": True},
    ),
    (
        "admin/status/get",
        lambda c: c.admin.status.get(),
        {},
        {
            "version": "0.1.0",
            "documentCount": 9,
            "collectionCount": 2,
            "chunkCount": 40,
            "indexing": {"done": 7, "running": 1, "failed": 1, "oldestWaitingAt": AT},
            "jobs": {"waiting": 1, "running": 0, "failed": 2, "oldestWaitingAt": AT},
            "syncs": {"running": 1, "failed": 0},
            "rebuildsRunning": 0,
            "embeddingModel": "all-MiniLM-L6-v2",
            "languageModel": "built-in",
            "textRetentionDays": 30,
        },
    ),
    (
        "admin/searchLog/summarize",
        lambda c: c.admin.search_log.summarize(from_="2026-01-01T02:00:00+02:00", to=AT, bucket="week"),
        {"from": "2026-01-01T00:00:00Z", "to": AT, "bucket": "week"},
        {"buckets": [{"from": AT, "searches": 9, "withoutResults": 2, "thumbsUp": 3, "thumbsDown": 1}]},
    ),
    (
        "admin/questionLog/summarize",
        lambda c: c.admin.question_log.summarize(from_=AT, to=AT, bucket="week", agent_id=OTHER_ID, group_id=JOB_ID),
        {"from": AT, "to": AT, "bucket": "week", "agentId": OTHER_ID, "groupId": JOB_ID},
        {"buckets": [{"from": AT, **COUNTED}], "askers": 3},
    ),
    (
        "admin/questionLog/rank",
        lambda c: c.admin.question_log.rank("GROUP", from_=AT, to=AT, agent_id=OTHER_ID, group_id=JOB_ID),
        {"by": "GROUP", "from": AT, "to": AT, "agentId": OTHER_ID, "groupId": JOB_ID},
        {"ranking": [{"id": OTHER_ID, "name": "Crew", **COUNTED}]},
    ),
    ("admin/access/countResources", lambda c: c.admin.access.count_resources(), {}, {"counts": [], "total": 0}),
    (
        "admin/access/countResources",
        lambda c: c.admin.access.count_resources(
            query="trains",
            resource_types=["BOX_FILE"],
            readable_by=ADA,
            not_readable_by=TEAM,
            owned_by=BEN,
            organization_wide=True,
        ),
        {
            "query": "trains",
            "resourceTypes": ["BOX_FILE"],
            "readableBy": ADA,
            "action": "READ",
            "notReadableBy": TEAM,
            "ownedBy": BEN,
            "organizationWide": True,
        },
        {"counts": [{"resourceType": "BOX_FILE", "count": 3}], "total": 3},
    ),
    (
        "admin/grants/set",
        lambda c: c.admin.grants.set(
            resource=RESOURCE, grants=[{"principal": ADA, "role": "EDITOR"}], organization_wide=True
        ),
        {"resource": RESOURCE, "grants": [{"principal": ADA, "role": "EDITOR"}], "organizationWide": True},
        GRANTS,
    ),
    (
        "admin/grants/setMany",
        lambda c: c.admin.grants.set_many([{"resource": RESOURCE, "grants": []}]),
        {"resources": [{"resource": RESOURCE, "grants": [], "organizationWide": False}]},
        {"resourceCount": 1},
    ),
    (
        "admin/owners/transfer",
        lambda c: c.admin.owners.transfer(BEN, owner=ADA, resource_types=["BOX_FILE"]),
        {"newOwner": BEN, "owner": ADA, "resourceTypes": ["BOX_FILE"]},
        HANDOVER,
    ),
    (
        "admin/owners/transfer",
        lambda c: c.admin.owners.transfer(BEN, resources=[RESOURCE]),
        {"newOwner": BEN, "resources": [RESOURCE]},
        HANDOVER,
    ),
    (
        "admin/users/planOffboarding",
        lambda c: c.admin.users.plan_offboarding("ada@example.com", new_owner=BEN),
        {"email": "ada@example.com", "newOwner": BEN},
        {
            "user": USER_ROW,
            "newOwner": {"type": "user", "email": "ben@example.com", "id": OTHER_ID, "name": "Ben"},
            "apiKeys": [API_KEY_ROW],
            "browserSessionCount": 1,
            "applicationCount": 2,
            "applicationTokenCount": 3,
            "groups": [{"type": "group", "id": OTHER_ID, "name": "Ops"}],
            "owned": [{"resourceType": "DOCSTORE_SYNC", "count": 4}],
            "onlyReader": [{"resourceType": "BOX_FILE", "count": 5}],
        },
    ),
    (
        "admin/users/offboard",
        lambda c: c.admin.users.offboard("ada@example.com"),
        {"email": "ada@example.com"},
        {
            **HANDOVER,
            "user": USER_ROW,
            "ended": {
                "apiKeyCount": 1,
                "browserSessionCount": 2,
                "applicationCount": 3,
                "applicationTokenCount": 4,
                "groupIds": [OTHER_ID],
            },
        },
    ),
    (
        "admin/apiKeys/create",
        lambda c: c.admin.api_keys.create("loader", expires_at=datetime(2027, 1, 1, tzinfo=UTC)),
        {"name": "loader", "mayActForUsers": False, "expiresAt": "2027-01-01T00:00:00Z"},
        {**API_KEY_ROW, "apiKey": "svc_key_new"},
    ),
    (
        "admin/users/resetSecondFactor",
        lambda c: c.admin.users.reset_second_factor("ada@example.test"),
        {"email": "ada@example.test"},
        {"removedCount": 1},
    ),
    (
        "admin/sessions/end",
        lambda c: c.admin.sessions.end("ada@example.test", session_ids=[OTHER_ID]),
        {"email": "ada@example.test", "sessionIds": [OTHER_ID]},
        {"endedCount": 1},
    ),
    (
        "alerts/reportRun",
        lambda c: c.alerts.report_run(
            OTHER_ID, "FAILED", subject=LEDGER, flow="reindex", source="Travel", code="refused", document_count=3
        ),
        {
            "runId": OTHER_ID,
            "subject": LEDGER,
            "flow": "reindex",
            "source": "Travel",
            "outcome": "FAILED",
            "code": "refused",
            "documentCount": 3,
        },
        {"runId": OTHER_ID},
    ),
    (
        "alerts/reportSchedules",
        lambda c: c.alerts.report_schedules([{"subject": "1", "name": "Nightly", "dueAt": AT}]),
        {"schedules": [{"subject": "1", "name": "Nightly", "dueAt": AT}]},
        {"reportAgainSeconds": 60},
    ),
    (
        "admin/alertRules/create",
        lambda c: c.admin.alert_rules.create(["RUN_FAILED"], webhook_url="https://hooks.example.com/carrel"),
        {"kinds": ["RUN_FAILED"], "webhookUrl": "https://hooks.example.com/carrel"},
        {**ALERT_RULE_ROW, "webhookSecret": "whsec_bGlnaHRob3VzZQ=="},
    ),
    (
        "admin/alertRules/update",
        lambda c: c.admin.alert_rules.update(OTHER_ID, kinds=["RUN_FAILED"], emails=["ada@example.com"], enabled=False),
        {"alertRuleId": OTHER_ID, "kinds": ["RUN_FAILED"], "emails": ["ada@example.com"], "enabled": False},
        ALERT_RULE_ROW,
    ),
    (
        "admin/alertRules/delete",
        lambda c: c.admin.alert_rules.delete(OTHER_ID),
        {"alertRuleId": OTHER_ID},
        {"alertRuleId": OTHER_ID},
    ),
    (
        "admin/alerts/end",
        lambda c: c.admin.alerts.end(OTHER_ID),
        {"alertId": OTHER_ID},
        {"alertId": OTHER_ID, "kind": "RUN_FAILED", "name": "Travel", "code": "run_lost", "beganAt": AT},
    ),
    (
        "admin/alertRules/test",
        lambda c: c.admin.alert_rules.test(OTHER_ID),
        {"alertRuleId": OTHER_ID},
        {"deliveryIds": [OTHER_ID]},
    ),
    (
        "admin/signInProviders/create",
        lambda c: c.admin.sign_in_providers.create(
            "Work",
            issuer="https://login.example.com",
            client_id="carrel",
            client_secret="a secret",
            domains=["Example.com"],
            groups_claim="ROLES",
            create_accounts=True,
        ),
        {
            "name": "Work",
            "issuer": "https://login.example.com",
            "clientId": "carrel",
            "clientSecret": "a secret",
            "domains": ["example.com"],
            "trustAddresses": False,
            "groupsClaim": "ROLES",
            "createAccounts": True,
            "signOutThere": False,
        },
        PROVIDER_ROW,
    ),
    (
        "admin/signInProviders/get",
        lambda c: c.admin.sign_in_providers.get(OTHER_ID),
        {"providerId": OTHER_ID},
        PROVIDER_ROW,
    ),
    (
        "admin/signInProviders/update",
        lambda c: c.admin.sign_in_providers.update(OTHER_ID, trust_addresses=True, client_secret="another"),
        {"providerId": OTHER_ID, "trustAddresses": True, "clientSecret": "another"},
        PROVIDER_ROW,
    ),
    (
        "admin/signInProviders/delete",
        lambda c: c.admin.sign_in_providers.delete(OTHER_ID),
        {"providerId": OTHER_ID},
        {"providerId": OTHER_ID},
    ),
    (
        "admin/signInProviders/test",
        lambda c: c.admin.sign_in_providers.test(OTHER_ID),
        {"providerId": OTHER_ID},
        {"problems": ["It answers 404."]},
    ),
    (
        "admin/apiKeys/revoke",
        lambda c: c.admin.api_keys.revoke(OTHER_ID),
        {"apiKeyId": OTHER_ID},
        {**API_KEY_ROW, "status": "revoked"},
    ),
    (
        "admin/serviceAccounts/create",
        lambda c: c.admin.service_accounts.create("Nightly loader"),
        {"displayName": "Nightly loader"},
        SERVICE_ACCOUNT_ROW,
    ),
    (
        "admin/serviceAccounts/delete",
        lambda c: c.admin.service_accounts.delete(OTHER_ID),
        {"serviceAccountId": OTHER_ID},
        {"serviceAccountId": OTHER_ID, "revokedTokenCount": 2},
    ),
    (
        "admin/serviceAccountTokens/mint",
        lambda c: c.admin.service_account_tokens.mint(
            OTHER_ID, "loader", scopes=["catalog:write"], expires_at=datetime(2027, 1, 1, tzinfo=UTC)
        ),
        {
            "serviceAccountId": OTHER_ID,
            "name": "loader",
            "scopes": ["catalog:write"],
            "expiresAt": "2027-01-01T00:00:00Z",
        },
        {**TOKEN_ROW, "token": "svc_sa_new"},
    ),
    (
        "admin/serviceAccountTokens/revoke",
        lambda c: c.admin.service_account_tokens.revoke(OTHER_ID),
        {"tokenId": OTHER_ID},
        {**TOKEN_ROW, "status": "revoked"},
    ),
    (
        "admin/scimTokens/create",
        lambda c: c.admin.scim_tokens.create("Entra", expires_at="2027-01-01T00:00:00Z"),
        {"name": "Entra", "expiresAt": "2027-01-01T00:00:00Z"},
        {**SCIM_TOKEN_ROW, "token": "svc_sc_new", "baseUrl": "https://carrel.example.com/scim/v2"},
    ),
    (
        "admin/scimTokens/revoke",
        lambda c: c.admin.scim_tokens.revoke(OTHER_ID),
        {"tokenId": OTHER_ID},
        {**SCIM_TOKEN_ROW, "status": "revoked"},
    ),
    (
        "admin/serviceAccountTokens/previewReach",
        lambda c: c.admin.service_account_tokens.preview_reach(OTHER_ID, ["catalog:read"]),
        {"serviceAccountId": OTHER_ID, "scopes": ["catalog:read"]},
        REACH,
    ),
    *(
        (
            f"admin/oauthClients/{name}",
            call,
            {key: OAUTH_CLIENT_ROW[key] for key in ("name", "redirectUris", "scopes")},
            {**OAUTH_CLIENT_ROW, "clientSecret": "svc_cs_new"},
        )
        for name, call in {
            "create": lambda c: c.admin.oauth_clients.create("Intranet", **OAUTH_CLIENT),
            "request": lambda c: c.admin.oauth_clients.request("Intranet", **OAUTH_CLIENT),
        }.items()
    ),
    (
        "admin/oauthClients/update",
        lambda c: c.admin.oauth_clients.update(OTHER_ID, scopes=["api:catalog:read"]),
        {"clientId": OTHER_ID, "scopes": ["api:catalog:read"]},
        OAUTH_CLIENT_ROW,
    ),
    (
        "admin/oauthClients/approve",
        lambda c: c.admin.oauth_clients.approve(OTHER_ID),
        {"clientId": OTHER_ID},
        OAUTH_CLIENT_ROW,
    ),
    (
        "admin/oauthClients/rotateSecret",
        lambda c: c.admin.oauth_clients.rotate_secret(OTHER_ID),
        {"clientId": OTHER_ID},
        {**OAUTH_CLIENT_ROW, "clientSecret": "svc_cs_new"},
    ),
    (
        "admin/oauthClients/delete",
        lambda c: c.admin.oauth_clients.delete(OTHER_ID),
        {"clientId": OTHER_ID},
        {"clientId": OTHER_ID},
    ),
    (
        "admin/oauthClients/withdrawConsents",
        lambda c: c.admin.oauth_clients.withdraw_consents(OTHER_ID, email="ada@example.com"),
        {"clientId": OTHER_ID, "email": "ada@example.com"},
        {"withdrawnCount": 1},
    ),
    (
        "admin/agents/create",
        lambda c: c.admin.agents.create(
            "Travel desk",
            description="Knows how we travel",
            instructions="Be brief.",
            model="carrel-extractive",
            collection_ids=[COLLECTION_ID],
            api_access_enabled=True,
        ),
        {name: value for name, value in AGENT_ROW.items() if name not in {"agentId", "createdAt", "updatedAt"}},
        AGENT_ROW,
    ),
    (
        "admin/agents/update",
        lambda c: c.admin.agents.update(
            OTHER_ID,
            instructions="",
            collection_ids=[],
            api_access_enabled=False,
            retrieval={"enable_smart_filtering": True},
        ),
        {
            "agentId": OTHER_ID,
            "instructions": "",
            "collectionIds": [],
            "apiAccessEnabled": False,
            "retrieval": {"enableSmartFiltering": True},
        },
        AGENT_ROW,
    ),
    (
        "admin/agents/update",
        lambda c: c.admin.agents.update(OTHER_ID, model=None),
        {"agentId": OTHER_ID, "model": None},
        AGENT_ROW,
    ),
    (
        "admin/agents/delete",
        lambda c: c.admin.agents.delete(OTHER_ID),
        {"agentId": OTHER_ID},
        {"agentId": OTHER_ID},
    ),
    (
        "admin/agents/deploy",
        lambda c: c.admin.agents.deploy(OTHER_ID, [ADA], organization_wide=True),
        {"agentId": OTHER_ID, "principals": [ADA], "organizationWide": True},
        {"agentId": OTHER_ID, "principals": [USER], "organizationWide": True},
    ),
    (
        "copilots/sendMessage",
        lambda c: c.copilots.send_message(
            OTHER_ID, "How?", conversation_id=CONVERSATION_ID, user_email="ada@example.com"
        ),
        {"agentId": OTHER_ID, "message": "How?", "conversationId": CONVERSATION_ID, "userEmail": "ada@example.com"},
        SENT_CHAT,
    ),
    (
        "copilots/provideMessageFeedback",
        lambda c: c.copilots.provide_message_feedback(OTHER_ID, JOB_ID, "NEGATIVE", suggested_answer="By ferry"),
        {
            "agentId": OTHER_ID,
            "messageId": JOB_ID,
            "messageFeedback": {"feedback": "NEGATIVE", "suggestedAnswer": "By ferry"},
        },
        {"auditLogId": AUDIT_LOG_ID},
    ),
    (
        "permissions/explainAuthorization",
        lambda c: c.permissions.explain_authorization(RESOURCE, ADA),
        {"resource": RESOURCE, "principal": ADA, "action": "READ"},
        {"authorized": True, "paths": [PATH], "complete": False},
    ),
    (
        "permissions/checkResourceAuthorizationForUser",
        lambda c: c.permissions.check_resource_authorization_for_user(RESOURCE, user_email="ada@example.com"),
        {"resource": RESOURCE, "action": "READ", "userEmail": "ada@example.com"},
        {"authorized": True},
    ),
    (
        "permissions/checkBulkResourcesAuthorizationForUser",
        lambda c: c.permissions.check_bulk_resources_authorization_for_user([RESOURCE]),
        {"resources": [RESOURCE], "action": "READ"},
        {"results": [{"resource": RESOURCE, "authorized": False}]},
    ),
]

LISTS: list[Case] = [
    (
        "admin/evaluationSets/list",
        lambda c: c.admin.evaluation_sets.list(query="Trav", agent_id=OTHER_ID, ids=[OTHER_ID]),
        {"query": "Trav", "agentId": OTHER_ID, "ids": [OTHER_ID]},
        {"evaluationSets": [EVALUATION_SET_ROW]},
    ),
    (
        "admin/evaluationSets/listCases",
        lambda c: c.admin.evaluation_sets.list_cases(OTHER_ID, query="dogs"),
        {"evaluationSetId": OTHER_ID, "query": "dogs"},
        {"cases": [{"caseId": OTHER_ID, "question": "Dogs?", "judgements": [JUDGEMENT], "note": "Often"}]},
    ),
    (
        "admin/evaluationSets/listRuns",
        lambda c: c.admin.evaluation_sets.list_runs(OTHER_ID, ids=[OTHER_ID]),
        {"evaluationSetId": OTHER_ID, "ids": [OTHER_ID]},
        {"runs": [EVALUATION_RUN_ROW]},
    ),
    (
        "admin/evaluationSets/listResults",
        lambda c: c.admin.evaluation_sets.list_results(OTHER_ID, OTHER_ID),
        {"evaluationSetId": OTHER_ID, "evaluationRunId": OTHER_ID},
        {"results": [{**CASE_RESULT, "question": "Dogs?"}]},
    ),
    (
        "sources/listSources",
        lambda c: c.sources.list_sources(ledger=LEDGER, own=True),
        {"ledger": LEDGER, "own": True},
        {"sources": [SOURCE_ROW]},
    ),
    (
        "sources/listSourceItems",
        lambda c: c.sources.list_source_items(OTHER_ID, ignored=True),
        {"sourceId": OTHER_ID, "ignored": True},
        {
            "items": [
                {
                    "name": "handbook/travel",
                    "place": "travel.md",
                    "documentExternalId": "handbook/travel",
                    "code": "unreadable_document",
                    "message": "It is encrypted.",
                    "fingerprint": "f",
                    "since": AT,
                    "ignored": True,
                }
            ]
        },
    ),
    (
        "documentCollections/listIndexRebuildFailures",
        lambda c: c.document_collections.index_rebuilds.list_index_rebuild_failures(COLLECTION_ID),
        {"documentCollectionId": COLLECTION_ID},
        {
            "failures": [
                {
                    "documentId": DOCUMENT_ID,
                    "documentName": "Minutes",
                    "documentExternalId": "minutes",
                    "error": "The embeddings endpoint doesn't answer.",
                    "attempts": 2,
                }
            ]
        },
    ),
    (
        f"{DOCSTORE}/listDocstoreSyncs",
        lambda c: c.document_collections.docstore.list_docstore_syncs(document_collection_id=COLLECTION_ID),
        {"documentCollectionId": COLLECTION_ID},
        {"docstoreSyncs": [SYNC_ROW]},
    ),
    (
        f"{DOCSTORE}/listDocstoreFailures",
        lambda c: c.document_collections.docstore.list_docstore_failures(OTHER_ID),
        {"docstoreCredentialId": OTHER_ID},
        {
            "failures": [
                {
                    "sourceId": {"$oid": "65a0c0ffee65a0c0ffee65a0"},
                    "documentExternalId": "a",
                    "code": "missing_value",
                    "message": "body: the document has no text in text.",
                    "failedAt": AT,
                }
            ]
        },
    ),
    (
        "catalog/listDocuments",
        lambda c: c.catalog.list_documents(
            document_external_ids=["travel"],
            document_name="trav",
            updated_from=AT,
            resource_types=["BOX_FILE"],
            indexing="FAILED",
        ),
        {
            "documentExternalIds": ["travel"],
            "documentName": "trav",
            "updatedFrom": AT,
            "resourceTypes": ["BOX_FILE"],
            "indexing": "FAILED",
        },
        {"documents": [{**DOCUMENT, "indexing": "FAILED"}]},
    ),
    (
        "catalog/listLeftOutFiles",
        lambda c: c.catalog.list_left_out_files(DOCUMENT_ID),
        {"documentId": DOCUMENT_ID},
        {"files": [{"path": "tool.exe", "number": 5, "code": "file_type_unsupported", "message": "Not read."}]},
    ),
    (
        "documentCollections/listDocumentCollections",
        lambda c: c.document_collections.list_document_collections(),
        {},
        {
            "documentCollections": [
                {
                    "documentCollectionId": COLLECTION_ID,
                    "collectionName": "Policies",
                    "embeddingsModel": "all-MiniLM-L6-v2",
                    "distanceMetric": "COSINE",
                    "customMetadataSchema": {"fields": [{"name": "team", "type": "STRING"}]},
                    "documentCount": 1,
                    "role": "OWNER",
                    "createdAt": AT,
                }
            ]
        },
    ),
    (
        "documentCollections/listDocumentsInCollection",
        lambda c: c.document_collections.list_documents_in_collection(
            COLLECTION_ID, ids=[DOCUMENT_ID], indexing="DONE"
        ),
        {"documentCollectionId": COLLECTION_ID, "ids": [DOCUMENT_ID], "indexing": "DONE"},
        {
            "documents": [
                {
                    "documentId": DOCUMENT_ID,
                    "documentName": "Travel",
                    "documentExternalId": "travel",
                    "resource": RESOURCE,
                    "documentVersion": 2,
                    "indexedVersion": 1,
                    "stale": True,
                    "indexing": "DONE",
                    "chunkCount": 3,
                    "customMetadata": {},
                    "addedAt": AT,
                }
            ]
        },
    ),
    (
        "documentCollections/getDocumentChunks",
        lambda c: c.document_collections.get_document_chunks(DOCUMENT_ID),
        {"documentId": DOCUMENT_ID},
        {"documentVersion": 1, "chunks": [{"chunkId": OTHER_ID, "chunkIndex": 0, "text": "book a train"}]},
    ),
    (
        "permissions/listAuthorizedPrincipalsForResource",
        lambda c: c.permissions.list_authorized_principals_for_resource(resource=RESOURCE),
        {"resource": RESOURCE, "action": "READ"},
        {"principals": [USER, {"type": "group", "id": OTHER_ID, "name": "Ops"}]},
    ),
    (
        "permissions/listAuthorizedResources",
        lambda c: c.permissions.list_authorized_resources(resource_type="AGENT"),
        {"action": "READ", "resourceType": "AGENT"},
        {"resources": [RESOURCE]},
    ),
    (
        "admin/users/list",
        lambda c: c.admin.users.list(query="ad", active=True, is_admin=False, ids=[OTHER_ID]),
        {"query": "ad", "active": True, "isAdmin": False, "ids": [OTHER_ID]},
        {"users": [{**USER_ROW, "groupCount": 2, "hasPassword": True, "lastSignedInAt": AT}]},
    ),
    (
        "admin/groups/listMemberships",
        lambda c: c.admin.groups.list_memberships(ADA),
        {"member": ADA},
        {
            "memberships": [
                {**GROUP_ROW, "direct": False, "through": [{"type": "group", "id": OTHER_ID, "name": "Ops"}]}
            ]
        },
    ),
    ("admin/groups/list", lambda c: c.admin.groups.list(), {}, {"groups": [GROUP_ROW]}),
    ("admin/groups/list", lambda c: c.admin.groups.list(ids=[OTHER_ID]), {"ids": [OTHER_ID]}, {"groups": [GROUP_ROW]}),
    (
        "admin/groups/listMembers",
        lambda c: c.admin.groups.list_members(OTHER_ID),
        {"groupId": OTHER_ID},
        {"members": [USER, {"type": "serviceAccount", "id": OTHER_ID, "email": "bot@example.com", "name": "Bot"}]},
    ),
    (
        "admin/serviceAccounts/list",
        lambda c: c.admin.service_accounts.list(query="load", ids=[OTHER_ID]),
        {"query": "load", "ids": [OTHER_ID]},
        {"serviceAccounts": [SERVICE_ACCOUNT_ROW]},
    ),
    (
        "admin/serviceAccountTokens/list",
        lambda c: c.admin.service_account_tokens.list(OTHER_ID, ids=[OTHER_ID]),
        {"serviceAccountId": OTHER_ID, "ids": [OTHER_ID]},
        {"tokens": [TOKEN_ROW]},
    ),
    (
        "admin/oauthClients/list",
        lambda c: c.admin.oauth_clients.list(status="pending", ids=[OTHER_ID]),
        {"status": "pending", "ids": [OTHER_ID]},
        {"oauthClients": [OAUTH_CLIENT_ROW]},
    ),
    (
        "admin/oauthClients/listConsents",
        lambda c: c.admin.oauth_clients.list_consents(client_id=OTHER_ID, email="ada@example.com"),
        {"clientId": OTHER_ID, "email": "ada@example.com"},
        {"consents": [CONSENT_ROW]},
    ),
    (
        "admin/agents/list",
        lambda c: c.admin.agents.list(query="desk", ids=[OTHER_ID]),
        {"query": "desk", "ids": [OTHER_ID]},
        {"agents": [AGENT_ROW], "models": ["carrel-extractive"]},
    ),
    (
        "admin/searchLog/query",
        lambda c: c.admin.search_log.query(
            to=AT, without_results=True, without_words=True, feedback="THUMBS_DOWN", ids=[OTHER_ID]
        ),
        {"to": AT, "withoutResults": True, "withoutWords": True, "feedback": "THUMBS_DOWN", "ids": [OTHER_ID]},
        {
            "searches": [
                {
                    "searchId": OTHER_ID,
                    "at": AT,
                    "actor": USER,
                    "query": "night train",
                    "mode": "HYBRID",
                    "resultCount": 0,
                    "hasWords": False,
                    "feedback": "THUMBS_DOWN",
                }
            ]
        },
    ),
    (
        "admin/questionLog/query",
        lambda c: c.admin.question_log.query(
            agent_id=OTHER_ID,
            group_id=JOB_ID,
            from_=AT,
            to=AT,
            conversation_id=CONVERSATION_ID,
            outcome="UNANSWERED",
            feedback="NEGATIVE",
            query="train",
            ids=[OTHER_ID],
        ),
        {
            "agentId": OTHER_ID,
            "groupId": JOB_ID,
            "from": AT,
            "to": AT,
            "conversationId": CONVERSATION_ID,
            "outcome": "UNANSWERED",
            "feedback": "NEGATIVE",
            "query": "train",
            "ids": [OTHER_ID],
        },
        {
            "questions": [
                {
                    "messageId": JOB_ID,
                    "conversationId": CONVERSATION_ID,
                    "at": AT,
                    "agentId": OTHER_ID,
                    "agentName": "Canteen desk",
                    "actor": USER,
                    "message": "Is there a night train?",
                    "outcome": "UNANSWERED",
                    "withheld": False,
                    "agentResponseText": "Nothing answers this.",
                    "feedback": "NEGATIVE",
                    "feedbackText": "There is one.",
                }
            ]
        },
    ),
    ("admin/grants/list", lambda c: c.admin.grants.list(RESOURCE), {"resource": RESOURCE}, GRANTS),
    (
        "admin/access/listResources",
        lambda c: c.admin.access.list_resources(),
        {},
        {"resources": [{**RESOURCE, "objectId": OTHER_ID, "accessClass": "c1"}]},
    ),
    (
        "admin/access/listResources",
        lambda c: c.admin.access.list_resources(
            query="trains",
            resource_ids=["7"],
            resource_types=["BOX_FILE"],
            readable_by=ADA,
            not_readable_by=TEAM,
            order="NAME",
        ),
        {
            "order": "NAME",
            "query": "trains",
            "resourceIds": ["7"],
            "resourceTypes": ["BOX_FILE"],
            "readableBy": ADA,
            "action": "READ",
            "notReadableBy": TEAM,
        },
        {"resources": [{**RESOURCE, "objectId": OTHER_ID, "accessClass": "c1", "name": "Night trains"}]},
    ),
    (
        "admin/access/listHolders",
        lambda c: c.admin.access.list_holders(),
        {},
        {
            "holders": [
                {"accessClass": "c1", "principalId": OTHER_ID, "principalType": "group", "role": "VIEWER"},
                {"accessClass": "c2", "principalId": OTHER_ID, "principalType": "organization", "role": "VIEWER"},
            ]
        },
    ),
    (
        "admin/access/listGroupPeople",
        lambda c: c.admin.access.list_group_people(),
        {},
        {"people": [{"groupId": OTHER_ID, "principalId": DOCUMENT_ID}]},
    ),
    (
        "admin/scimTokens/list",
        lambda c: c.admin.scim_tokens.list(ids=[OTHER_ID]),
        {"ids": [OTHER_ID]},
        {"tokens": [SCIM_TOKEN_ROW], "baseUrl": "https://carrel.example.com/scim/v2"},
    ),
    ("admin/apiKeys/list", lambda c: c.admin.api_keys.list(), {}, {"apiKeys": [API_KEY_ROW]}),
    (
        "admin/apiKeys/list",
        lambda c: c.admin.api_keys.list(owner_email="ada@example.com", ids=[OTHER_ID]),
        {"ownerEmail": "ada@example.com", "ids": [OTHER_ID]},
        {"apiKeys": [API_KEY_ROW]},
    ),
    (
        "admin/sessions/list",
        lambda c: c.admin.sessions.list("ada@example.test"),
        {"email": "ada@example.test"},
        {"sessions": [{"sessionId": OTHER_ID, "kind": "BROWSER", "createdAt": AT, "expiresAt": AT}]},
    ),
    (
        "admin/signInProviders/list",
        lambda c: c.admin.sign_in_providers.list(),
        {},
        {"signInProviders": [PROVIDER_ROW]},
    ),
    (
        "admin/alertRules/list",
        lambda c: c.admin.alert_rules.list(),
        {},
        {"alertRules": [ALERT_RULE_ROW], "mailEnabled": False},
    ),
    (
        "admin/alertRules/listDeliveries",
        lambda c: c.admin.alert_rules.list_deliveries(alert_rule_id=OTHER_ID),
        {"alertRuleId": OTHER_ID},
        {
            "deliveries": [
                {
                    "deliveryId": OTHER_ID,
                    "alertRuleId": OTHER_ID,
                    "type": "alert.test",
                    "status": "PENDING",
                    "attemptCount": 1,
                    "attempts": [{"at": AT, "statusCode": 500, "error": "The receiver answers 500."}],
                    "createdAt": AT,
                    "nextAttemptAt": AT,
                }
            ]
        },
    ),
    (
        "admin/alerts/list",
        lambda c: c.admin.alerts.list(only_open=True),
        {"onlyOpen": True},
        {"alerts": [{"alertId": OTHER_ID, "kind": "RUN_FAILED", "name": "Travel", "code": "run_lost", "beganAt": AT}]},
    ),
    (
        "admin/auditLog/query",
        lambda c: c.admin.audit_log.query(query="desk", from_="2026-01-01T02:00:00+02:00", ids=[OTHER_ID]),
        {"query": "desk", "from": "2026-01-01T00:00:00Z", "ids": [OTHER_ID]},
        {"entries": [{"auditLogId": OTHER_ID, "at": AT, "actor": USER, "action": "catalog.upload", "details": {}}]},
    ),
]


def _named(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case[0]) for case in cases]


@pytest.mark.parametrize("case", _named(SINGLE))
async def test_operation(caller: Caller, server: Server, case: Case) -> None:
    """The request has the wire's path and members, and every member of the answer is read."""
    path, operate, request_body, answer = case
    server.will(answer)
    result = await caller(operate)
    assert server.received[0].path == f"/api/v0/{path}"
    assert server.received[0].json == request_body
    assert server.received[0].headers["authorization"] == f"Bearer {API_KEY}"
    assert covers(result.model_dump(mode="json", by_alias=True), answer)


@pytest.mark.parametrize("case", _named(LISTS))
async def test_list_operation(caller: Caller, server: Server, case: Case) -> None:
    """A list is walked over its pages, each asked for with the token of the one before and the same query."""
    path, operate, request_body, answer = case
    server.will({**answer, "nextPageToken": "more"}, answer)
    rows = next(value for value in answer.values() if isinstance(value, list))
    items = await caller.walk(operate(caller.client))
    dumped = [item.model_dump(mode="json", by_alias=True) for item in items]
    assert len(dumped) == 2 * len(rows)
    assert all(covers(row, wanted) for row, wanted in zip(dumped, rows * 2, strict=True))
    assert [request.path for request in server.received] == [f"/api/v0/{path}"] * 2
    assert server.received[0].json == {**request_body, "pageSize": 100}
    assert server.received[1].json == {**request_body, "pageSize": 100, "pageToken": "more"}


def covers(got: Any, wanted: Any) -> bool:
    """Whether every member of `wanted` was read as it was sent."""
    if isinstance(wanted, dict):
        return all(covers(got[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(covers, got, wanted))
    return bool(got == wanted)


def test_every_operation_has_a_case() -> None:
    """No operation of a resource is left out of the cases above (uploads, downloads, imports have their own files)."""
    groups = [
        catalog.Catalog,
        document_collections.DocumentCollections,
        docstore.Docstore,
        index_rebuilds.IndexRebuilds,
        search.Search,
        sources.Sources,
        alerts.Alerts,
        permissions.Permissions,
        copilots.Copilots,
        *(admin.Users, admin.Groups, admin.Grants, admin.ApiKeys, admin.ScimTokens, admin.OrganizationSettings),
        *(admin.ServiceAccounts, admin.ServiceAccountTokens, admin.AuditLog, admin.SearchLog, admin.Directory),
        admin.QuestionLog,
        *(admin.Sessions, admin.OAuthClients, admin.AgentDefinitions, admin.AccessLists, admin.Owners, admin.Status),
        *(admin.EvaluationSets, admin.AlertRules, admin.AdminAlerts, admin.SignInProviders),
    ]
    members = [member for group in groups for member in vars(group).values()]
    assert sum(isinstance(member, Operation) for member in members) == len({path for path, *_ in SINGLE}) + 2
    assert sum(isinstance(member, ListOperation) for member in members) == len({path for path, *_ in LISTS})
    assert sum(isinstance(member, DownloadOperation) for member in members) == 2
    assert sum(isinstance(member, FlowOperation) for member in members) == 2
    described = [m for m in members if isinstance(m, Operation | ListOperation | DownloadOperation | FlowOperation)]
    assert all(member.__doc__ for member in described)


async def test_with_raw_response(caller: Caller, server: Server) -> None:
    """with_raw_response gives headers, status, request id and body beside the model, for lists their first page."""
    server.will({"documentId": DOCUMENT_ID}, {"documents": [], "nextPageToken": "more"})
    answer = await caller(lambda c: c.catalog.with_raw_response.delete_document(DOCUMENT_ID))
    assert isinstance(answer, RawResponse)
    assert (answer.status_code, answer.parsed.document_id) == (200, UUID(DOCUMENT_ID))
    assert answer.content.startswith(b"{")
    assert answer.headers["content-type"] == "application/json"
    page = await caller(lambda c: c.catalog.with_raw_response.list_documents())
    assert isinstance(page.parsed, PagedResponse)
    assert page.parsed.next_page_token == "more"


async def test_pages(caller: Caller, server: Server) -> None:
    """`pages()` walks page by page, nothing is fetched before, and each walk starts anew."""
    one, two = {"resources": [RESOURCE], "nextPageToken": "more"}, {"resources": []}
    pager = caller.client.permissions.list_authorized_resources(page_size=1)
    assert not server.received
    for _ in range(2):
        server.will(one, two)
        pages = await caller.walk(pager.pages())
        assert [len(page.resources) for page in pages] == [1, 0]
    assert [request.json.get("pageToken") for request in server.received] == [None, "more"] * 2


async def test_page_token_continues(caller: Caller, server: Server) -> None:
    """A walk begins at the page whose token is given."""
    server.will({"resources": [RESOURCE]})
    await caller.walk(caller.client.permissions.list_authorized_resources(page_token="from-here"))
    assert server.received[0].json["pageToken"] == "from-here"


async def test_pager_that_does_not_advance(caller: Caller, server: Server) -> None:
    """A service that gives the same token again ends the walk with an error, not an endless loop."""
    server.will(*[{"resources": [RESOURCE], "nextPageToken": "same"}] * 3)
    with pytest.raises(Exception, match="doesn't advance"):
        await caller.walk(caller.client.permissions.list_authorized_resources())
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("operate", "named"),
    [
        (lambda c: c.catalog.get_document("not-an-id"), "document_id"),
        (lambda c: c.search.search_document_catalog("x", max_results=101), "max_results"),
        (lambda c: c.search.search_document_catalog("a\0b"), "search_query"),
        (lambda c: c.search.search_document_catalog("x", resource_types="AGENT"), "resource_types"),
        (lambda c: c.admin.users.upsert([{"email": "ada@example.com", "rank": 1}]), "users.0.rank"),
        (lambda c: c.permissions.check_bulk_resources_authorization_for_user([RESOURCE] * 1001), "resources"),
        (lambda c: c.admin.service_account_tokens.mint(OTHER_ID, "x", scopes="catalog:read"), "scopes"),
        (lambda c: c.admin.service_account_tokens.preview_reach(OTHER_ID), "scopes"),
        (lambda c: c.admin.service_account_tokens.preview_reach(OTHER_ID, [], token_id=OTHER_ID), "tokenId"),
    ],
)
async def test_arguments_are_checked(caller: Caller, server: Server, operate: Callable[[Any], Any], named: str) -> None:
    """Arguments that make no request are refused by name, before anything is sent."""
    with pytest.raises(InvalidArgumentError, match=named) as refused:
        await caller(operate)
    assert "Value error" not in str(refused.value)
    assert not server.received


KEYED = {
    "admin/agents/create",
    "admin/agents/delete",
    "admin/alertRules/create",
    "admin/alertRules/delete",
    "admin/alertRules/test",
    "admin/evaluationSets/create",
    "admin/evaluationSets/delete",
    "admin/evaluationSets/addRun",
    "admin/evaluationSets/deleteRun",
    "admin/groups/delete",
    "admin/groups/upsert",
    "admin/apiKeys/create",
    "admin/scimTokens/create",
    "admin/oauthClients/create",
    "admin/users/invite",
    "admin/oauthClients/delete",
    "admin/oauthClients/request",
    "admin/oauthClients/rotateSecret",
    "admin/serviceAccounts/create",
    "admin/serviceAccounts/delete",
    "admin/serviceAccountTokens/mint",
    "admin/signInProviders/create",
    "admin/signInProviders/delete",
}


@pytest.mark.parametrize("case", _named([case for case in SINGLE if case[0].startswith(("admin/", "permissions/"))]))
async def test_what_creates_carries_an_idempotency_key(caller: Caller, server: Server, case: Case) -> None:
    """An operation that makes something new can be sent again without making it twice; others carry no key."""
    path, operate, _, answer = case
    server.will(answer)
    await caller(operate)
    assert ("idempotency-key" in server.received[0].headers) == (path in KEYED)


async def test_a_token_is_shown_by_asking_for_it_alone(caller: Caller, server: Server) -> None:
    """A minted token's value is not in the repr of the answer, which ends in logs and notebooks."""
    server.will({**TOKEN_ROW, "token": "svc_sa_new"})
    minted = await caller(lambda c: c.admin.service_account_tokens.mint(OTHER_ID, "loader", scopes=[]))
    assert minted.token == "svc_sa_new"
    assert "svc_sa_new" not in repr(minted)


async def test_arguments_of_coroutines_are_checked_when_awaited(make_caller: MakeCaller) -> None:
    """An asynchronous operation raises where it is awaited, so that gathering several leaves none un-awaited."""
    caller = make_caller()
    if not caller.is_async:
        pytest.skip("about coroutines")
    coroutine = caller.client.catalog.get_document("not-an-id")
    with pytest.raises(InvalidArgumentError):
        await coroutine


async def test_unknown_members_and_types_are_tolerated(caller: Caller, server: Server) -> None:
    """A newer service's members are ignored, and a resource type this client doesn't know reads as UNKNOWN."""
    resource = {"resourceId": "x", "resourceType": "HOLOGRAM", "planet": "Mars"}
    server.will({"resources": [resource], "weather": "fine"})
    items = await caller.walk(caller.client.permissions.list_authorized_resources())
    assert items == [ResourceIdentifier(resource_id="x", resource_type=ResourceType.UNKNOWN)]


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[1]", b'{"documentId": 1}', b"\xff\xfe"])
async def test_unreadable_answer(caller: Caller, server: Server, body: bytes) -> None:
    """A 200 that isn't the service's raises UnexpectedResponseError, and isn't asked for again."""
    server.will(raw(body, headers={"x-request-id": "r-1"}))
    with pytest.raises(UnexpectedResponseError, match="base_url") as caught:
        await caller(lambda c: c.catalog.delete_document(DOCUMENT_ID))
    assert (caught.value.status, caught.value.request_id, len(server.received)) == (200, "r-1", 1)


async def test_upload_answer(caller: Caller, server: Server) -> None:
    """An upload's answer tells the document, its version, what was done and whether it is searchable."""
    server.will(UPLOADED)
    result = await caller(lambda c: c.catalog.upload_file(b"hello", document_external_id="a"))
    assert (result.document_id, result.status, result.indexing) == (UUID(DOCUMENT_ID), "CREATED", "DONE")
