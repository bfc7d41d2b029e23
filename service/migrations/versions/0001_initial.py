"""The first schema: every table, the service's role, and row-level security."""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC
from sqlalchemy.dialects.postgresql import JSONB

from service.migrations.row_security import create_role, protect, show_before_authentication

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# What the service may read and write, one organization at a time.
PROTECTED = (
    "organizations",
    "access_classes",
    "free_texts",
    "kept_responses",
    "principals",
    "searches",
    "spaces",
    "api_keys",
    "class_readers",
    "collections",
    "documents",
    "group_members",
    "resources",
    "term_deltas",
    "term_statistics",
    "caller_chunks",
    "chunks_384",
    "code_pages_384",
    "document_contents",
    "document_versions",
    "space_documents",
)


def upgrade() -> None:
    """Make everything."""
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    _create_identity()
    _create_permissions()
    _create_audit()
    _create_catalog()
    _create_indexing()
    _create_collections()
    _create_search()
    _create_idempotency()
    create_role()
    for table in PROTECTED:
        protect(table)
    # The audit log only grows: not even the service can change or delete an entry.
    protect("audit_entries", privileges=("SELECT", "INSERT"))
    show_before_authentication("organizations")
    show_before_authentication("api_keys")


def downgrade() -> None:
    """Refuse: there is nothing before the first schema. Restore a backup instead."""
    raise NotImplementedError("There is no schema before the first one. Restore a backup instead.")


def _create_identity() -> None:
    op.create_table(
        "organizations",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("service_accounts_enabled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("page_key", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", name="pk_organizations"),
    )
    op.create_table(
        "principals",
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text()),
        sa.Column("external_id", sa.Text()),
        sa.Column("is_admin", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("password_hash", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "(kind IN ('user', 'serviceAccount')) = (email IS NOT NULL)", name=op.f("ck_principals_email")
        ),
        sa.CheckConstraint("kind IN ('user', 'group', 'serviceAccount', 'everyone')", name=op.f("ck_principals_kind")),
        sa.CheckConstraint("email = lower(email)", name=op.f("ck_principals_email_lower")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_principals_organization_id"
        ),
        sa.PrimaryKeyConstraint("principal_id", name="pk_principals"),
    )
    op.create_index("ix_principals_kind", "principals", ["organization_id", "kind", "principal_id"])
    op.create_index("uq_principals_email", "principals", ["organization_id", "email"], unique=True)
    op.create_index("uq_principals_external_id", "principals", ["organization_id", "external_id"], unique=True)
    op.create_table(
        "api_keys",
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("may_act_for_users", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_api_keys_organization_id"
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["principals.principal_id"], name="fk_api_keys_owner_id"),
        sa.PrimaryKeyConstraint("api_key_id", name="pk_api_keys"),
        sa.UniqueConstraint("secret_hash", name="uq_api_keys_secret_hash"),
    )
    op.create_index("ix_api_keys_organization", "api_keys", ["organization_id", "api_key_id"])
    op.create_table(
        "group_members",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Uuid(), nullable=False),
        sa.Column("member_id", sa.Uuid(), nullable=False),
        sa.Column("member_is_group", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["principals.principal_id"], name="fk_group_members_group_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["member_id"], ["principals.principal_id"], name="fk_group_members_member_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_group_members_organization_id"
        ),
        sa.PrimaryKeyConstraint("organization_id", "group_id", "member_id", name="pk_group_members"),
    )
    op.create_index("ix_group_members_member", "group_members", ["organization_id", "member_id", "group_id"])
    op.create_index(
        "ix_group_members_nested",
        "group_members",
        ["organization_id", "group_id", "member_id"],
        postgresql_where=sa.text("member_is_group"),
    )


def _create_permissions() -> None:
    op.create_table(
        "access_classes",
        sa.Column("access_class", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_access_classes_organization_id"
        ),
        sa.PrimaryKeyConstraint("access_class", name="pk_access_classes"),
        sa.UniqueConstraint("organization_id", "digest", name="uq_access_classes_organization_id_digest"),
    )
    op.create_table(
        "class_readers",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.CheckConstraint("role IN ('OWNER', 'EDITOR', 'VIEWER')", name=op.f("ck_class_readers_role")),
        sa.ForeignKeyConstraint(
            ["access_class"], ["access_classes.access_class"], name="fk_class_readers_access_class"
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_class_readers_organization_id"
        ),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principals.principal_id"], name="fk_class_readers_principal_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("organization_id", "principal_id", "access_class", "role", name="pk_class_readers"),
    )
    op.create_index("ix_class_readers_class", "class_readers", ["organization_id", "access_class", "principal_id"])
    op.create_table(
        "resources",
        sa.Column("object_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("resource_type", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["access_class"], ["access_classes.access_class"], name="fk_resources_access_class"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_resources_organization_id"
        ),
        sa.PrimaryKeyConstraint("object_id", name="pk_resources"),
        sa.UniqueConstraint(
            "organization_id",
            "resource_type",
            "resource_id",
            name="uq_resources_organization_id_resource_type_resource_id",
        ),
    )
    op.create_index("ix_resources_class", "resources", ["organization_id", "access_class", "object_id"])
    op.create_index("ix_resources_object", "resources", ["organization_id", "object_id"])


def _create_audit() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("audit_log_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor_id", sa.Uuid()),
        sa.Column("acting_for_id", sa.Uuid()),
        sa.Column("credential_id", sa.Uuid()),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target_type", sa.Text()),
        sa.Column("target_id", sa.Text()),
        sa.Column("details", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("request_id", sa.Text()),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_audit_entries_organization_id"
        ),
        sa.PrimaryKeyConstraint("audit_log_id", name="pk_audit_entries"),
    )
    op.create_index("ix_audit_entries_at", "audit_entries", ["organization_id", "at", "audit_log_id"])
    op.create_index("ix_audit_entries_target", "audit_entries", ["organization_id", "target_id", "at", "audit_log_id"])
    op.create_table(
        "free_texts",
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_free_texts_organization_id"
        ),
        sa.PrimaryKeyConstraint("subject_id", name="pk_free_texts"),
    )


def _create_catalog() -> None:
    op.create_table(
        "documents",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("external_url", sa.Text()),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("custom_metadata", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("fingerprint", sa.Text()),
        sa.Column("source_updated_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_documents_organization_id"
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["principals.principal_id"], name="fk_documents_owner_id"),
        sa.PrimaryKeyConstraint("document_id", name="pk_documents"),
    )
    op.create_index("ix_documents_created", "documents", ["organization_id", "created_at", "document_id"])
    op.create_table(
        "document_contents",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("blocks", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_document_contents_document_id"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_document_contents_organization_id"
        ),
        sa.PrimaryKeyConstraint("document_id", name="pk_document_contents"),
    )
    op.create_table(
        "document_versions",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("file_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("file_size", sa.BigInteger(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["principals.principal_id"], name="fk_document_versions_created_by"),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_document_versions_document_id"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_document_versions_organization_id"
        ),
        sa.PrimaryKeyConstraint("document_id", "version", name="pk_document_versions"),
    )


def _create_indexing() -> None:
    op.create_table(
        "spaces",
        sa.Column("space_id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("'english'"), nullable=False),
        sa.Column("is_catalog", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_spaces_organization_id"
        ),
        sa.PrimaryKeyConstraint("space_id", name="pk_spaces"),
    )
    op.create_index(
        "uq_spaces_catalog", "spaces", ["organization_id"], unique=True, postgresql_where=sa.text("is_catalog")
    )
    op.create_table(
        "term_deltas",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.Column("delta_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("delta", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "organization_id", "space_id", "term", "delta_id", name="pk_term_deltas", postgresql_include=["delta"]
        ),
    )
    op.create_table(
        "term_statistics",
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("term", sa.Integer(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("frequency", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_term_statistics_organization_id"
        ),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name="fk_term_statistics_space_id"),
        sa.PrimaryKeyConstraint("space_id", "term", name="pk_term_statistics"),
    )
    op.create_table(
        "space_documents",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("indexed_version", sa.Integer()),
        sa.Column("chunk_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("chunks_expected", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("chunks_embedded", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("caller_chunks", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("custom_metadata", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("claimed_until", sa.DateTime(timezone=True)),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("added_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_space_documents_document_id"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_space_documents_organization_id"
        ),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name="fk_space_documents_space_id"),
        sa.PrimaryKeyConstraint("document_id", "space_id", name="pk_space_documents"),
    )
    op.create_index(
        "ix_space_documents_pending",
        "space_documents",
        ["organization_id", "claimed_until"],
        postgresql_where=sa.text("indexed_version IS DISTINCT FROM version"),
    )
    op.create_index("ix_space_documents_space", "space_documents", ["space_id", "document_id"])
    op.create_table(
        "chunks_384",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("chunk_no", sa.Integer(), nullable=False),
        sa.Column("terms", SPARSEVEC(2**29), nullable=False),
        sa.Column("embedding", HALFVEC(384), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id", "space_id"],
            ["space_documents.document_id", "space_documents.space_id"],
            name="fk_chunks_384_space_document",
        ),
        sa.PrimaryKeyConstraint("document_id", "space_id", "chunk_no", name="pk_chunks_384"),
    )
    # Read with every search, so kept in the row; what makes room is the text, which few searches read of a row.
    op.execute("ALTER TABLE chunks_384 ALTER embedding SET STORAGE PLAIN, ALTER terms SET STORAGE MAIN")
    op.create_index("ix_chunks_384_class", "chunks_384", ["organization_id", "space_id", "access_class"])
    op.create_table(
        "code_pages_384",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("access_class", sa.BigInteger(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("page_no", sa.Integer(), nullable=False),
        sa.Column("c1", BIT(384)),
        sa.Column("c2", BIT(384)),
        sa.Column("c3", BIT(384)),
        sa.Column("c4", BIT(384)),
        sa.Column("c5", BIT(384)),
        sa.Column("c6", BIT(384)),
        sa.Column("c7", BIT(384)),
        sa.Column("c8", BIT(384)),
        sa.ForeignKeyConstraint(
            ["document_id", "space_id"],
            ["space_documents.document_id", "space_documents.space_id"],
            name="fk_code_pages_384_space_document",
        ),
        sa.PrimaryKeyConstraint("document_id", "space_id", "page_no", name="pk_code_pages_384"),
    )
    op.create_index(
        "ix_code_pages_384_class",
        "code_pages_384",
        ["organization_id", "space_id", "access_class"],
        postgresql_include=["document_id", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"],
    )
    # An index-only scan is one only over pages that vacuum has seen: see to them often.
    for table, often in (("chunks_384", 0.02), ("code_pages_384", 0.01)):
        op.execute(
            f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = {often},"
            f" autovacuum_vacuum_insert_scale_factor = {often}, autovacuum_analyze_scale_factor = 0.05)"
        )


def _create_collections() -> None:
    op.create_table(
        "collections",
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("distance_metric", sa.Text(), nullable=False),
        sa.Column("schema_fields", JSONB(), nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "distance_metric IN ('EUCLIDEAN', 'COSINE', 'DOTPRODUCT')", name=op.f("ck_collections_distance_metric")
        ),
        sa.ForeignKeyConstraint(["created_by"], ["principals.principal_id"], name="fk_collections_created_by"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_collections_organization_id"
        ),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name="fk_collections_space_id"),
        sa.PrimaryKeyConstraint("collection_id", name="pk_collections"),
        sa.UniqueConstraint("organization_id", "name", name="uq_collections_organization_id_name"),
    )
    op.create_table(
        "caller_chunks",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("chunks", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_caller_chunks_document_id"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_caller_chunks_organization_id"
        ),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name="fk_caller_chunks_space_id"),
        sa.PrimaryKeyConstraint("document_id", "space_id", name="pk_caller_chunks"),
    )


def _create_search() -> None:
    op.create_table(
        "searches",
        sa.Column("search_id", sa.Uuid(), nullable=False),
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("collection_id", sa.Uuid()),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("result_count", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.Text()),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_searches_organization_id"
        ),
        sa.PrimaryKeyConstraint("search_id", name="pk_searches"),
    )
    op.create_index("ix_searches_at", "searches", ["organization_id", "at", "search_id"])


def _create_idempotency() -> None:
    op.create_table(
        "kept_responses",
        sa.Column("organization_id", sa.Uuid(), nullable=False),
        sa.Column("principal_id", sa.Uuid(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("headers", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name="fk_kept_responses_organization_id"
        ),
        sa.PrimaryKeyConstraint("organization_id", "principal_id", "idempotency_key", name="pk_kept_responses"),
    )
    op.create_index("ix_kept_responses_created", "kept_responses", ["organization_id", "created_at"])
