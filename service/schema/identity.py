"""Organizations, principals, membership, credentials, and access classes, by which visibility is checked."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from service.platform.database import metadata
from service.schema.tables import deleted_with, table

organizations = sa.Table(
    "organizations",
    metadata,
    sa.Column("organization_id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("domain", sa.Text, nullable=False),
    sa.Column("service_accounts_enabled", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("second_factor", sa.Text, nullable=False, server_default=sa.text("'NOBODY'")),
    sa.Column("passwords_enabled", sa.Boolean, nullable=False, server_default=sa.text("true")),
    sa.Column("enable_reranking", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("enable_query_model", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("owner_sharing_enabled", sa.Boolean, nullable=False, server_default=sa.text("false")),
    # Hosts of documents that describe OAuth clients which people may allow.
    sa.Column("client_document_hosts", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("ARRAY[]::text[]")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

# All principals that grants can name are in one table, so that grants, memberships and look-ups need one join. The
# principal of kind `everyone` has its organization's id and means its active users. A deleted service account stays,
# inactive: the audit log names it, it owns its uploads, and its address is never reused. `external_id` is the id in
# another system. `released_at` is when an identity provider deleted a person, who stays, inactive, as an owner, and is
# hidden from the provider until active again. Addresses are in lower case: lower() is not leakproof, so under row-level
# security its index would be unused.
principals = table(
    "principals",
    sa.Column("principal_id", sa.Uuid, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("email", sa.Text),
    sa.Column("external_id", sa.Text),
    sa.Column("is_admin", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("active", sa.Boolean, nullable=False, server_default=sa.text("true")),
    sa.Column("password_hash", sa.Text),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("deleted_at", sa.DateTime(timezone=True)),
    sa.Column("released_at", sa.DateTime(timezone=True)),
    sa.CheckConstraint("kind IN ('user', 'group', 'serviceAccount', 'everyone')", name="kind"),
    sa.CheckConstraint("(kind IN ('user', 'serviceAccount')) = (email IS NOT NULL)", name="email"),
    sa.CheckConstraint("email = lower(email)", name="email_lower"),
    sa.CheckConstraint("kind = 'user' OR NOT is_admin", name="admin_is_user"),
    sa.CheckConstraint("deleted_at IS NULL OR (kind = 'serviceAccount' AND NOT active)", name="deleted"),
    sa.Index("uq_principals_email", "organization_id", "email", unique=True),
    sa.Index("uq_principals_kind_external_id", "organization_id", "kind", "external_id", unique=True),
    sa.Index("ix_principals_kind", "organization_id", "kind", "principal_id"),
)

# `member_is_group` repeats the member's kind, which never changes: walking down groups need not read their people.
group_members = table(
    "group_members",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("group_id", sa.Uuid, deleted_with("principals.principal_id"), primary_key=True),
    sa.Column("member_id", sa.Uuid, deleted_with("principals.principal_id"), primary_key=True),
    sa.Column("member_is_group", sa.Boolean, nullable=False),
    sa.Index("ix_group_members_member", "organization_id", "member_id", "group_id"),
    sa.Index(
        "ix_group_members_nested",
        "organization_id",
        "group_id",
        "member_id",
        postgresql_where=sa.text("member_is_group"),
    ),
)

# A deleted group while it can be restored. `kept` has its name, external id, members, parent groups, and its roles by
# access class: a resource that is still in the class has the same access as then.
trashed_groups = table(
    "trashed_groups",
    sa.Column("group_id", sa.Uuid, primary_key=True),
    sa.Column("kept", JSONB, nullable=False),
    sa.Column("deleted_by", sa.Uuid),
    sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("ix_trashed_groups_organization", "organization_id", "group_id"),
)

api_keys = table(
    "api_keys",
    sa.Column("api_key_id", sa.Uuid, primary_key=True),
    sa.Column("owner_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("may_act_for_users", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_api_keys_organization", "organization_id", "api_key_id"),
    sa.Index("ix_api_keys_owner", "owner_id"),
)

# `scopes` limit the account's rights. Deleting the account revokes its tokens; their rows stay.
service_account_tokens = table(
    "service_account_tokens",
    sa.Column("token_id", sa.Uuid, primary_key=True),
    sa.Column("service_account_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_service_account_tokens_account", "organization_id", "service_account_id", "token_id"),
    sa.Index("ix_service_account_tokens_organization", "organization_id", "token_id"),
)

# Tokens for identity providers that manage people and groups (SCIM); no person owns them.
scim_tokens = table(
    "scim_tokens",
    sa.Column("token_id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("expires_at", sa.DateTime(timezone=True)),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_scim_tokens_organization", "organization_id", "token_id"),
)


# A class never changes: a resource with new readers moves to another class, found by the digest of its readers.
access_classes = table(
    "access_classes",
    sa.Column("access_class", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("organization_id", "digest"),
)

class_readers = table(
    "class_readers",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("principal_id", sa.Uuid, deleted_with("principals.principal_id"), primary_key=True),
    sa.Column("access_class", sa.BigInteger, sa.ForeignKey("access_classes.access_class"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.CheckConstraint("role IN ('OWNER', 'EDITOR', 'VIEWER')", name="role"),
    sa.Index("ix_class_readers_class", "organization_id", "access_class", "principal_id"),
)

# All objects that grants can be on: documents, collections, agents. `object_id` is the object's own id; (resource_type,
# resource_id) is its identity in the source system. `container_id` is the document whose file contains this document's
# file: both are always in the same class, and the container can't be deleted first. `shares` are the roles that the
# owner gave, by principal; NULL: none.
resources = table(
    "resources",
    sa.Column("object_id", sa.Uuid, primary_key=True),
    sa.Column("resource_type", sa.Text, nullable=False),
    sa.Column("resource_id", sa.Text, nullable=False),
    sa.Column("access_class", sa.BigInteger, sa.ForeignKey("access_classes.access_class"), nullable=False),
    sa.Column("container_id", sa.Uuid),
    sa.Column("shares", JSONB),
    sa.UniqueConstraint("organization_id", "resource_type", "resource_id"),
    sa.UniqueConstraint("object_id", "access_class"),
    sa.ForeignKeyConstraint(["container_id", "access_class"], ["resources.object_id", "resources.access_class"]),
    sa.Index(
        "ix_resources_container", "container_id", "access_class", postgresql_where=sa.text("container_id IS NOT NULL")
    ),
    sa.Index("ix_resources_class", "organization_id", "access_class", "object_id"),
    sa.Index("ix_resources_class_type", "organization_id", "access_class", "resource_type", "object_id"),
    sa.Index("ix_resources_object", "organization_id", "object_id", postgresql_include=["access_class"]),
    sa.Index("ix_resources_type", "organization_id", "resource_type", "object_id", postgresql_include=["access_class"]),
)
