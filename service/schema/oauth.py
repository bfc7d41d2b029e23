"""OAuth clients, what people allowed them, and what they were given for it; of secrets only the SHA-256."""

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
    false,
    func,
    text,
)

from service.platform.database import metadata

# A pending client (a member asked for it, no admin has approved it) can do nothing. A public client has the hash of a
# secret that nobody has. Of one that a document describes (`document_url`), the row is what the document said last, and
# its id is made from the address.
oauth_clients = Table(
    "oauth_clients",
    metadata,
    Column("client_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("redirect_uris", ARRAY(Text), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("status", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("requested_by", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("audience", Text, nullable=False, server_default=text("'api'")),
    Column("is_public", Boolean, nullable=False, server_default=false()),
    Column("document_url", Text),
    Column("document_fresh_until", DateTime(timezone=True)),
    CheckConstraint("status IN ('pending', 'approved')", name="status"),
    Index("ix_oauth_clients_organization", "organization_id", "client_id"),
    Index("ix_oauth_clients_requested_by", "requested_by"),
)

# What somebody allowed a client, all scopes together, and in which collections (NULL: wherever they may read); taking
# it back deletes the row. `last_used_at` is of those of its tokens that are purged.
oauth_consents = Table(
    "oauth_consents",
    metadata,
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), primary_key=True),
    Column("client_id", Uuid, ForeignKey("oauth_clients.client_id", ondelete="CASCADE"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("granted_at", DateTime(timezone=True), nullable=False),
    Column("collection_ids", ARRAY(Uuid)),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_oauth_consents_client", "client_id"),
)

# All tokens that descend from one code: they are revoked together (RFC 9700, section 4.14.2). Address and device
# are those of the browser in which the person allowed it, as with the code.
oauth_token_families = Table(
    "oauth_token_families",
    metadata,
    Column("family_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("client_id", Uuid, ForeignKey("oauth_clients.client_id", ondelete="CASCADE"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Column("address", Text),
    Column("device", Text),
    Column("confirmed_at", DateTime(timezone=True)),
    Index("ix_oauth_token_families_principal", "organization_id", "principal_id", "client_id"),
    Index("ix_oauth_token_families_client", "client_id"),
)

# `family_id` is what a used code gave.
oauth_codes = Table(
    "oauth_codes",
    metadata,
    Column("code_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("client_id", Uuid, ForeignKey("oauth_clients.client_id", ondelete="CASCADE"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("redirect_uri", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("code_challenge", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True)),
    Column("family_id", Uuid, ForeignKey("oauth_token_families.family_id", ondelete="CASCADE")),
    Column("address", Text),
    Column("device", Text),
    Column("confirmed_at", DateTime(timezone=True)),
    Index("ix_oauth_codes_client", "client_id"),
    Index("ix_oauth_codes_principal", "organization_id", "principal_id", "client_id"),
    Index("ix_oauth_codes_family", "family_id"),
    Index("ix_oauth_codes_expires", "organization_id", "expires_at"),
)

# One that was used stays as long as its family lives, so that using it again is noticed.
oauth_refresh_tokens = Table(
    "oauth_refresh_tokens",
    metadata,
    Column("token_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("family_id", Uuid, ForeignKey("oauth_token_families.family_id", ondelete="CASCADE"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True)),
    Index("ix_oauth_refresh_tokens_family", "family_id", "expires_at"),
)

# Client and person are repeated from the family, so that a request is authenticated by one look-up.
oauth_access_tokens = Table(
    "oauth_access_tokens",
    metadata,
    Column("token_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("family_id", Uuid, ForeignKey("oauth_token_families.family_id", ondelete="CASCADE"), nullable=False),
    Column("client_id", Uuid, ForeignKey("oauth_clients.client_id", ondelete="CASCADE"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_oauth_access_tokens_family", "family_id"),
    Index("ix_oauth_access_tokens_client", "client_id"),
    Index("ix_oauth_access_tokens_expires", "organization_id", "expires_at"),
    Index("ix_oauth_access_tokens_principal", "principal_id"),
)
