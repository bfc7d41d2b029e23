"""Organizations, the principals in them, group membership, and credentials."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    Text,
    Uuid,
    func,
    text,
)

from service.platform.database import metadata

organizations = Table(
    "organizations",
    metadata,
    Column("organization_id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("service_accounts_enabled", Boolean, nullable=False, server_default=text("false")),
    Column("second_factor", Text, nullable=False, server_default=text("'NOBODY'")),
    Column("passwords_enabled", Boolean, nullable=False, server_default=text("true")),
    Column("enable_reranking", Boolean, nullable=False, server_default=text("false")),
    Column("enable_query_model", Boolean, nullable=False, server_default=text("false")),
    # Hosts whose documents describe OAuth clients that people here may allow.
    Column("client_document_hosts", ARRAY(Text), nullable=False, server_default=text("ARRAY[]::text[]")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# One table for everything a grant can name, so that grants, memberships and look-ups need one join.
# The principal of kind `everyone` has its organization's own id and stands for its active users.
# A deleted service account stays, inactive: the audit log names it, it owns what it uploaded, and nobody else ever gets
# its address.
# `external_id` is what a system elsewhere calls a person or a group by. `released_at` is when an identity provider
# deleted a person: they stay, inactive, for what they own; the provider sees them no more until they are active again.
# Addresses are kept in lower case: lower() is not leakproof, so under row-level security an index on it is not used.
principals = Table(
    "principals",
    metadata,
    Column("principal_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("email", Text),
    Column("external_id", Text),
    Column("is_admin", Boolean, nullable=False, server_default=text("false")),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("password_hash", Text),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("deleted_at", DateTime(timezone=True)),
    Column("released_at", DateTime(timezone=True)),
    CheckConstraint("kind IN ('user', 'group', 'serviceAccount', 'everyone')", name="kind"),
    CheckConstraint("(kind IN ('user', 'serviceAccount')) = (email IS NOT NULL)", name="email"),
    CheckConstraint("email = lower(email)", name="email_lower"),
    CheckConstraint("kind = 'user' OR NOT is_admin", name="admin_is_user"),
    CheckConstraint("deleted_at IS NULL OR (kind = 'serviceAccount' AND NOT active)", name="deleted"),
    Index("uq_principals_email", "organization_id", "email", unique=True),
    Index("uq_principals_kind_external_id", "organization_id", "kind", "external_id", unique=True),
    Index("ix_principals_kind", "organization_id", "kind", "principal_id"),
)

# `member_is_group` repeats the member's kind (which never changes), so that walking down nested groups
# does not read the people in them.
group_members = Table(
    "group_members",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("group_id", Uuid, ForeignKey("principals.principal_id", ondelete="CASCADE"), primary_key=True),
    Column("member_id", Uuid, ForeignKey("principals.principal_id", ondelete="CASCADE"), primary_key=True),
    Column("member_is_group", Boolean, nullable=False),
    Index("ix_group_members_member", "organization_id", "member_id", "group_id"),
    Index(
        "ix_group_members_nested", "organization_id", "group_id", "member_id", postgresql_where=text("member_is_group")
    ),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("api_key_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("owner_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("may_act_for_users", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_api_keys_organization", "organization_id", "api_key_id"),
    Index("ix_api_keys_owner", "owner_id"),
)

# `scopes` narrow what the account may do. Deleting the account revokes its tokens; their rows stay.
service_account_tokens = Table(
    "service_account_tokens",
    metadata,
    Column("token_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("service_account_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("hint", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_service_account_tokens_account", "organization_id", "service_account_id", "token_id"),
    Index("ix_service_account_tokens_organization", "organization_id", "token_id"),
)

# By these an identity provider keeps an organization's people and groups (SCIM); they belong to nobody.
scim_tokens = Table(
    "scim_tokens",
    metadata,
    Column("token_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_scim_tokens_organization", "organization_id", "token_id"),
)
