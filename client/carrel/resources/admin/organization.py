"""admin/organization, admin/apiKeys, admin/auditLog, admin/searchLog: settings, keys, and what was done with them."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyBucket, AnySearchFeedback, AnySecondFactorPolicy
from carrel.wire.api_keys import (
    ADMIN_API_KEYS_CREATE,
    ADMIN_API_KEYS_LIST,
    ADMIN_API_KEYS_REVOKE,
    AdminApiKeysCreateRequest,
    AdminApiKeysCreateResponse,
    AdminApiKeysListRequest,
    AdminApiKeysListResponse,
    AdminApiKeysRevokeRequest,
    AdminApiKeysRevokeResponse,
    ApiKey,
)
from carrel.wire.common import SecondFactorPolicy
from carrel.wire.organization import (
    ADMIN_ORGANIZATION_GET,
    ADMIN_ORGANIZATION_UPDATE,
    AdminOrganizationGetRequest,
    AdminOrganizationGetResponse,
    AdminOrganizationUpdateRequest,
    AdminOrganizationUpdateResponse,
)
from carrel.wire.oversight import (
    ADMIN_AUDIT_LOG_QUERY,
    ADMIN_SEARCH_LOG_QUERY,
    ADMIN_SEARCH_LOG_SUMMARIZE,
    AdminAuditLogQueryRequest,
    AdminAuditLogQueryResponse,
    AdminSearchLogQueryRequest,
    AdminSearchLogQueryResponse,
    AdminSearchLogSummarizeRequest,
    AdminSearchLogSummarizeResponse,
    AuditEntry,
    Bucket,
    LoggedSearch,
)
from carrel.wire.search import SearchFeedback

M = TypeVar("M")


class OrganizationSettings(Resource[M]):
    """The organization's settings."""

    @property
    def with_raw_response(self) -> "OrganizationSettings[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return OrganizationSettings(self._session.as_raw())

    @Operation
    def get(self) -> Call[AdminOrganizationGetResponse]:
        """Return the organization's settings."""
        return Call(ADMIN_ORGANIZATION_GET, AdminOrganizationGetRequest())

    @Operation
    def update(
        self,
        *,
        name: str | None = None,
        domain: str | None = None,
        service_accounts_enabled: bool | None = None,
        second_factor: AnySecondFactorPolicy | None = None,
        client_document_hosts: Iterable[str] | None = None,
        added_client_document_hosts: Iterable[str] | None = None,
        removed_client_document_hosts: Iterable[str] | None = None,
        enable_reranking: bool | None = None,
        enable_query_model: bool | None = None,
    ) -> Call[AdminOrganizationUpdateResponse]:
        """Change the organization's settings; what is left out stays. Service accounts have addresses on `domain`.

        `second_factor` says who must give one after a password that is kept here: `"NOBODY"`, `"ADMINS"` or
        `"EVERYBODY"`. `client_document_hosts` are hosts, such as `claude.ai`, whose documents describe OAuth clients
        for /mcp that people may allow; one that is taken away takes its clients with it. `added_client_document_hosts`
        and `removed_client_document_hosts` change this list by some, whatever others change. `enable_reranking` has
        searches reranked that don't choose it, and what agents look up; `enable_query_model` has the language model
        read the queries of smart filtering and query extraction.
        """
        request = AdminOrganizationUpdateRequest(
            name=name,
            domain=domain,
            service_accounts_enabled=service_accounts_enabled,
            second_factor=as_any(SecondFactorPolicy, second_factor),
            client_document_hosts=as_list(str, client_document_hosts),
            added_client_document_hosts=as_list(str, added_client_document_hosts),
            removed_client_document_hosts=as_list(str, removed_client_document_hosts),
            enable_reranking=enable_reranking,
            enable_query_model=enable_query_model,
        )
        return Call(ADMIN_ORGANIZATION_UPDATE, request)


class ApiKeys(Resource[M]):
    """The organization's API keys."""

    @property
    def with_raw_response(self) -> "ApiKeys[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return ApiKeys(self._session.as_raw())

    @Operation
    def create(
        self,
        name: str,
        *,
        owner_email: str | None = None,
        may_act_for_users: bool = False,
        expires_at: datetime | str | None = None,
    ) -> Call[AdminApiKeysCreateResponse]:
        """Create a key that acts as its owner, the caller unless named; `api_key` is its value, shown this once.

        When the answer was lost on the way, the retry raises ConflictError `already_done`: revoke that key and create
        another.
        """
        request = AdminApiKeysCreateRequest(
            name=name,
            owner_email=owner_email,
            may_act_for_users=may_act_for_users,
            expires_at=as_any(datetime, expires_at),
        )
        return Call(ADMIN_API_KEYS_CREATE, request)

    @ListOperation
    def list(
        self,
        *,
        owner_email: str | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[ApiKey, AdminApiKeysListResponse]:
        """Walk the API keys without their values; those of one owner, or of `ids` (at most 1000), if given."""
        request = AdminApiKeysListRequest(
            owner_email=owner_email, ids=as_list(UUID, ids), page_size=page_size, page_token=page_token
        )
        return Listing(ADMIN_API_KEYS_LIST, request, lambda page: page.api_keys)

    @Operation
    def revoke(self, api_key_id: Id) -> Call[AdminApiKeysRevokeResponse]:
        """Stop a key at once."""
        request = AdminApiKeysRevokeRequest(api_key_id=as_any(UUID, api_key_id))
        return Call(ADMIN_API_KEYS_REVOKE, request)


class AuditLog(Resource[M]):
    """The audit log: all changes, and who made them; entries can't be changed or deleted."""

    @property
    def with_raw_response(self) -> "AuditLog[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AuditLog(self._session.as_raw())

    @ListOperation
    def query(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target_id: str | None = None,
        query: str | None = None,
        contained: bool | None = None,
        container_id: Id | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[AuditEntry, AdminAuditLogQueryResponse]:
        """Walk the entries, newest first; `actor` is an email address, `from_` is included, `to` is not.

        `query` is a part of the name, as it was then, of what was changed or of who did it. `contained` False omits
        entries about files in archives and mails, which `document.unpack` sums up; True leaves those alone, and
        `container_id` those of one archive or mail. `ids` leaves the entries of these ids, at most 1000.
        """
        request = AdminAuditLogQueryRequest(
            actor=actor,
            action=action,
            target_id=target_id,
            query=query,
            contained=contained,
            container_id=as_any(UUID, container_id),
            from_=as_any(datetime, from_),
            to=as_any(datetime, to),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(ADMIN_AUDIT_LOG_QUERY, request, lambda page: page.entries)


class SearchLog(Resource[M]):
    """The search log: queries with their callers, results and feedback."""

    @property
    def with_raw_response(self) -> "SearchLog[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return SearchLog(self._session.as_raw())

    @ListOperation
    def query(
        self,
        *,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        without_results: bool = False,
        without_words: bool = False,
        feedback: AnySearchFeedback | None = None,
        ids: Iterable[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[LoggedSearch, AdminSearchLogQueryResponse]:
        """Walk the searches, newest first; `from_` is included, `to` is not.

        `without_results` leaves only those that found nothing, `without_words` those of whose words nothing that could
        be read has any, `feedback` (THUMBS_UP or THUMBS_DOWN) those that were given it, `ids` those of these ids, at
        most 1000.
        """
        request = AdminSearchLogQueryRequest(
            from_=as_any(datetime, from_),
            to=as_any(datetime, to),
            without_results=without_results,
            without_words=without_words,
            feedback=as_any(SearchFeedback, feedback),
            ids=as_list(UUID, ids),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(ADMIN_SEARCH_LOG_QUERY, request, lambda page: page.searches)

    @Operation
    def summarize(
        self, *, from_: datetime | str, to: datetime | str, bucket: AnyBucket = Bucket.DAY
    ) -> Call[AdminSearchLogSummarizeResponse]:
        """Count the searches of every day or week (in UTC, beginning on Monday); `from_` is included, `to` is not.

        Days and weeks without searches are among them. More than 400 are refused with BadRequestError.
        """
        request = AdminSearchLogSummarizeRequest(
            from_=as_any(datetime, from_), to=as_any(datetime, to), bucket=as_any(Bucket, bucket)
        )
        return Call(ADMIN_SEARCH_LOG_SUMMARIZE, request)
