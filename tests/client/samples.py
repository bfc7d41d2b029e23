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
DELETED = {"documentId": DOCUMENT_ID}
UPLOADED = {"documentId": DOCUMENT_ID, "documentVersion": 1, "status": "CREATED", "indexing": "DONE"}
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
