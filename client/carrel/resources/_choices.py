"""What operations accept for an enum of the wire: a member of it, or its text."""

from typing import Literal, TypeAlias

from carrel.wire.access import ResourceOrder
from carrel.wire.alerts import AlertKind, RunOutcome
from carrel.wire.catalog import IndexingStatus
from carrel.wire.collections import DistanceMetric
from carrel.wire.common import Action, ResourceType, SecondFactorPolicy
from carrel.wire.messages import Verdict
from carrel.wire.oauth_clients import OAuthAudience, OAuthClientStatus
from carrel.wire.oversight import Bucket
from carrel.wire.question_log import Outcome, RankedBy
from carrel.wire.scopes import Scope
from carrel.wire.search import SearchFeedback, SearchMode
from carrel.wire.sign_in_providers import GroupsClaim

AnyAction: TypeAlias = Action | Literal["READ"]
AnyAlertKind: TypeAlias = AlertKind | Literal["RUN_FAILED", "RUN_QUARANTINE", "SYNC_BEHIND", "SCHEDULE_MISSED"]
AnyBucket: TypeAlias = Bucket | Literal["day", "week"]
AnyDistanceMetric: TypeAlias = DistanceMetric | Literal["EUCLIDEAN", "COSINE", "DOTPRODUCT"]
AnyGroupsClaim: TypeAlias = GroupsClaim | Literal["NONE", "GROUPS", "ROLES"]
AnyIndexingStatus: TypeAlias = IndexingStatus | Literal["DONE", "RUNNING", "FAILED"]
AnyOAuthAudience: TypeAlias = OAuthAudience | Literal["api", "mcp"]
AnyOAuthClientStatus: TypeAlias = OAuthClientStatus | Literal["pending", "approved"]
AnyOutcome: TypeAlias = Outcome | Literal["RUNNING", "ANSWERED", "UNANSWERED", "FAILED"]
AnyRankedBy: TypeAlias = RankedBy | Literal["AGENT", "GROUP"]
AnyRunOutcome: TypeAlias = RunOutcome | Literal["RUNNING", "COMPLETED", "INCOMPLETE", "QUARANTINE", "FAILED", "STOPPED"]
AnyResourceOrder: TypeAlias = ResourceOrder | Literal["ID", "NAME"]
AnyResourceType: TypeAlias = (
    ResourceType
    | Literal[
        "GOOGLE_DRIVE_ITEM",
        "MICROSOFT_DRIVE_ITEM",
        "BOX_FILE",
        "BOX_FOLDER",
        "CONFLUENCE_PAGE",
        "CONFLUENCE_SPACE",
        "JIRA_TICKET",
        "JIRA_PROJECT",
        "NOTION_PAGE",
        "NOTION_DATABASE",
        "SALESFORCE_TASK",
        "SLACK_CHANNEL",
        "ZENDESK_TICKET",
        "ZENDESK_ARTICLE",
        "UPLOADED_DOCUMENT",
        "DOCSTORE_SYNC",
        "DOCUMENT_COLLECTION",
        "AGENT",
        "UNKNOWN",
    ]
)
AnyScope: TypeAlias = Scope | Literal["agent:message", "catalog:write", "catalog:read"]
AnySearchFeedback: TypeAlias = SearchFeedback | Literal["THUMBS_UP", "THUMBS_DOWN"]
AnySearchMode: TypeAlias = SearchMode | Literal["HYBRID", "LEXICAL", "SEMANTIC"]
AnySecondFactorPolicy: TypeAlias = SecondFactorPolicy | Literal["NOBODY", "ADMINS", "EVERYBODY"]
AnyVerdict: TypeAlias = Verdict | Literal["POSITIVE", "NEGATIVE"]
