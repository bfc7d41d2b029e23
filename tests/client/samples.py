"""Answers as the service would give them."""

from typing import Any

DOCUMENT_ID = "0190c1c0-0000-7000-8000-000000000001"
COLLECTION_ID = "0190c1c0-0000-7000-8000-000000000002"
OTHER_ID = "0190c1c0-0000-7000-8000-000000000003"
AT = "2026-01-31T09:30:00Z"

USER = {"type": "user", "email": "ada@example.com", "id": OTHER_ID, "name": "Ada"}
RESOURCE = {"resourceId": "page-1", "resourceType": "CONFLUENCE_PAGE"}

DOCUMENT: dict[str, Any] = {
    "documentId": DOCUMENT_ID,
    "documentName": "Travel",
    "documentExternalId": "travel",
    "resource": RESOURCE,
    "owner": USER,
    "documentVersion": 2,
    "fileName": "travel.md",
    "fileSize": 12,
    "mediaType": "text/markdown",
    "customMetadata": {"team": "ops"},
    "createdAt": AT,
    "updatedAt": AT,
}
UPLOADED = {"documentId": DOCUMENT_ID, "documentVersion": 1, "status": "CREATED", "indexing": "DONE"}
INDEXED = {
    "documentId": DOCUMENT_ID,
    "documentCollectionId": COLLECTION_ID,
    "documentVersion": 1,
    "chunkCount": 3,
    "embeddedChunkCount": 3,
    "status": "INDEXED",
}
EVALUATION_SET_ROW = {
    "evaluationSetId": OTHER_ID,
    "name": "Travel",
    "documentCollectionId": COLLECTION_ID,
    "targetName": "Handbook",
    "caseCount": 2,
    "runCount": 1,
    "lastRunAt": AT,
    "createdAt": AT,
}
EVALUATION_RUN_ROW = {
    "evaluationRunId": OTHER_ID,
    "evaluationSetId": OTHER_ID,
    "at": AT,
    "ranBy": USER,
    "mode": "LEXICAL",
    "note": "Before",
    "caseCount": 2,
    "ndcg": 0.5,
    "recall": 1.0,
    "reciprocalRank": 0.25,
}
FOUND = {
    "searchId": OTHER_ID,
    "results": [
        {
            "documentId": DOCUMENT_ID,
            "documentName": "Travel",
            "documentExternalId": "travel",
            "resource": RESOURCE,
            "score": 0.9,
            "snippet": {"text": "book a train", "matches": [{"start": 7, "end": 12}]},
            "customMetadata": {"team": "ops"},
            "updatedAt": AT,
        }
    ],
}
FOUND_CHUNKS = {
    "searchId": OTHER_ID,
    "results": [
        {
            "documentId": DOCUMENT_ID,
            "documentName": "Travel",
            "documentExternalId": "travel",
            "documentMetadata": {"team": "ops"},
            "chunks": [
                {
                    "chunkId": OTHER_ID,
                    "chunkIndex": 0,
                    "text": "book a train",
                    "score": 0.9,
                    "place": {"sheet": "Trips", "rows": {"first": 2, "last": 3}},
                },
                {"chunkId": OTHER_ID, "chunkIndex": 4, "text": "or a ferry", "score": 0.4},
            ],
        }
    ],
    "searchTermsUsed": ["train"],
    "structuredFiltersApplied": [],
}
USER_ROW = {"id": OTHER_ID, "email": "ada@example.com", "name": "Ada", "isAdmin": False, "active": True}
GROUP_ROW = {"id": OTHER_ID, "name": "Ops", "externalId": "ops", "memberCount": 2}
ORGANIZATION = {
    "organizationId": OTHER_ID,
    "name": "Example",
    "domain": "example.com",
    "serviceAccountsEnabled": False,
}
SCIM_TOKEN_ROW: dict[str, Any] = {
    "tokenId": OTHER_ID,
    "hint": "ab12",
    "name": "Entra",
    "status": "active",
    "createdAt": "2026-01-31T09:30:00Z",
}
API_KEY_ROW: dict[str, Any] = {
    "apiKeyId": OTHER_ID,
    "hint": "wxyz",
    "name": "loader",
    "ownerEmail": "ada@example.com",
    "mayActForUsers": True,
    "status": "active",
    "createdAt": AT,
}
GRANTS = {
    "resource": RESOURCE,
    "grants": [{"principal": {"type": "group", "id": OTHER_ID, "name": "Ops"}, "role": "VIEWER"}],
    "organizationWide": False,
}
SERVICE_ACCOUNT_ROW: dict[str, Any] = {
    "serviceAccountId": OTHER_ID,
    "displayName": "Nightly loader",
    "email": "nightly-loader@example.com",
    "createdAt": AT,
}
TOKEN_ROW: dict[str, Any] = {
    "tokenId": OTHER_ID,
    "serviceAccountId": OTHER_ID,
    "hint": "wxyz",
    "name": "loader",
    "description": "The nightly load",
    "scopes": ["catalog:write", "catalog:read"],
    "status": "active",
    "createdAt": AT,
    "expiresAt": "2027-01-31T09:30:00Z",
    "lastUsedAt": AT,
}
OAUTH_CLIENT_ROW: dict[str, Any] = {
    "clientId": OTHER_ID,
    "name": "Intranet",
    "redirectUris": ["https://intranet.example.com/callback"],
    "scopes": ["api:agent:message:*"],
    "status": "approved",
    "hint": "wxyz",
    "requestedBy": "ada@example.com",
    "createdAt": AT,
}
CONSENT_ROW: dict[str, Any] = {
    "clientId": OTHER_ID,
    "applicationName": "Desk agent",
    "audience": "mcp",
    "personId": OTHER_ID,
    "email": "ada@example.com",
    "personName": "Ada",
    "scopes": ["api:catalog:read"],
    "collectionIds": [COLLECTION_ID],
    "collectionNames": ["Handbook"],
    "grantedAt": AT,
}
AGENT_ROW: dict[str, Any] = {
    "agentId": OTHER_ID,
    "name": "Travel desk",
    "description": "Knows how we travel",
    "instructions": "Be brief.",
    "model": "carrel-extractive",
    "collectionIds": [COLLECTION_ID],
    "apiAccessEnabled": True,
    "createdAt": AT,
    "updatedAt": AT,
}
REACH = {
    "endpoints": ["catalog/getDocument"],
    "documentCount": 3,
    "editableDocumentCount": 1,
    "collections": [{"documentCollectionId": COLLECTION_ID, "collectionName": "Policies", "role": "VIEWER"}],
    "collectionCount": 1,
    "agents": [{"agentId": OTHER_ID, "agentName": "Helper", "apiAccessEnabled": True}],
    "agentCount": 1,
    "agentDocumentCount": 2,
    "warnings": ["It can update documents."],
}
PATH = [
    {"type": "user", "id": OTHER_ID, "name": "Ada", "email": "ada@example.com"},
    {"type": "group", "id": OTHER_ID, "name": "Ops"},
    {"type": "grant", "role": "VIEWER"},
    {"type": "resource", "id": "page-1", "name": "Travel"},
]
JOB_ID = "0190c1c0-0000-7000-8000-000000000004"
CONVERSATION_ID = "0190c1c0-0000-7000-8000-000000000005"
AUDIT_LOG_ID = "0190c1c0-0000-7000-8000-000000000006"
SOURCE: dict[str, Any] = {
    "id": DOCUMENT_ID,
    "name": "Travel",
    "url": "https://intranet.example.com/travel",
    "externalResourceId": {"externalResourceId": "page-1", "resourceType": "CONFLUENCE_PAGE"},
    "quote": "Book the night train",
}
SENT_CHAT: dict[str, Any] = {
    "sendChatResult": {
        "type": "ai_response_result",
        "conversationId": CONVERSATION_ID,
        "messageId": JOB_ID,
        "response": {"message": "By “night train” [1]."},
        "referencedSources": [SOURCE],
        "sourcesInDataContext": [SOURCE, {**SOURCE, "quote": "or a ferry"}],
        "webSearchResults": [],
        "warnings": ["A quote was left out."],
        "inserted_audit_log": {"id": AUDIT_LOG_ID},
    }
}
BLOCKED_CHAT: dict[str, Any] = {
    "sendChatResult": {
        "type": "blocked_result",
        "conversationId": CONVERSATION_ID,
        "blocks": ["You may not read this any more."],
        "warnings": [],
        "inserted_audit_log": {"id": AUDIT_LOG_ID},
    }
}
STARTED_JOB = {"jobId": JOB_ID, "conversationId": CONVERSATION_ID}
RUNNING_JOB = {"status": "RUNNING", "partialText": "By"}
COMPLETED_JOB: dict[str, Any] = {
    "status": "COMPLETED",
    "result": {
        "agentResponseText": "By “night train” [1].",
        "messageId": JOB_ID,
        "referencedSources": [SOURCE],
        "warnings": ["A quote was left out."],
        "auditLogId": AUDIT_LOG_ID,
    },
    "conversationId": CONVERSATION_ID,
}
FAILED_JOB = {"status": "FAILED", "errorMessage": "The model is away. Send it again.", "errorCode": "model_unavailable"}
WITHHELD_JOB = {"status": "FAILED", "errorMessage": "You may not read this any more.", "errorCode": "reply_withheld"}
CONVERSATION_ROW: dict[str, Any] = {
    "conversationId": CONVERSATION_ID,
    "agentId": OTHER_ID,
    "agentName": "Travel desk",
    "title": "How do I get to Vienna?",
    "messageCount": 1,
    "createdAt": AT,
    "updatedAt": AT,
}
MESSAGE_ROW: dict[str, Any] = {
    "messageId": JOB_ID,
    "createdAt": AT,
    "message": "How do I get to Vienna?",
    "status": "COMPLETED",
    "agentResponseText": "By “night train” [1].",
    "referencedSources": [SOURCE],
    "warnings": [],
    "feedback": "POSITIVE",
}
ME = {
    "id": OTHER_ID,
    "email": "ada@example.com",
    "name": "Ada",
    "isAdmin": False,
    "organizationId": COLLECTION_ID,
    "organizationName": "Example",
    "scopes": ["api:agent:message:*"],
}
SYNC_ROW: dict[str, Any] = {
    "docstoreCredentialId": OTHER_ID,
    "resourceId": OTHER_ID,
    "documentCollectionId": COLLECTION_ID,
    "config": {
        "syncName": "things",
        "collectionName": "things",
        "sourceFields": {"body": "text", "sourceName": "title"},
        "filterExpression": {},
        "deleteMissing": True,
        "deleteLimitPercent": 20,
    },
    "status": "COMPLETED",
    "counts": {"read": 3, "created": 2, "updated": 0, "unchanged": 1, "deleted": 0, "failed": 0},
    "documentCount": 3,
    "createdAt": AT,
    "updatedAt": AT,
}
SOURCE_ROW: dict[str, Any] = {
    "sourceId": OTHER_ID,
    "ledger": "5f0c6a1e9b3d4c7f8a2e1b0d",
    "source": "/srv/handbook",
    "documentCollectionId": COLLECTION_ID,
    "reportedBy": {"type": "user", "id": OTHER_ID, "name": "Ada", "email": "ada@example.com"},
    "itemCount": 3,
    "ignoredCount": 1,
    "reportedAt": AT,
}
REBUILD_ROW: dict[str, Any] = {
    "indexRebuildId": OTHER_ID,
    "documentCollectionId": COLLECTION_ID,
    "embeddingsModel": "large",
    "previousEmbeddingsModel": "all-MiniLM-L6-v2",
    "status": "RUNNING",
    "forced": False,
    "documentCount": 3,
    "indexedCount": 2,
    "failedCount": 1,
    "startedAt": AT,
}
