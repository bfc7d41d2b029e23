"""OAuth clients, what people allowed them, and what they were given for it; of secrets only the SHA-256."""

import sqlalchemy as sa

from service.schema.tables import deleted_with, table

# A pending client (a member asked for it, no admin has approved it) can do nothing. A public client has the hash of a
# secret that nobody has. Of one that a document describes (`document_url`), the row is what the document said last, and
# its id is made from the address.
oauth_clients = table(
    "oauth_clients",
    sa.Column("client_id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("redirect_uris", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False),
    sa.Column("requested_by", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("audience", sa.Text, nullable=False, server_default=sa.text("'api'")),
    sa.Column("is_public", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("document_url", sa.Text),
    sa.Column("document_fresh_until", sa.DateTime(timezone=True)),
    sa.CheckConstraint("status IN ('pending', 'approved')", name="status"),
    sa.Index("ix_oauth_clients_organization", "organization_id", "client_id"),
    sa.Index("ix_oauth_clients_requested_by", "requested_by"),
)

# What somebody allowed a client, all scopes together, and in which collections (NULL: wherever they may read); taking
# it back deletes the row. `last_used_at` is of those of its tokens that are purged.
oauth_consents = table(
    "oauth_consents",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("client_id", sa.Uuid, deleted_with("oauth_clients.client_id"), primary_key=True),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("collection_ids", sa.ARRAY(sa.Uuid)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_consents_client", "client_id"),
)

# All tokens that descend from one code: they are revoked together (RFC 9700, section 4.14.2). Address and device
# are those of the browser in which the person allowed it, as with the code.
oauth_token_families = table(
    "oauth_token_families",
    sa.Column("family_id", sa.Uuid, primary_key=True),
    sa.Column("client_id", sa.Uuid, deleted_with("oauth_clients.client_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    sa.Column("confirmed_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_token_families_principal", "organization_id", "principal_id", "client_id"),
    sa.Index("ix_oauth_token_families_client", "client_id"),
)

# `family_id` is what a used code gave.
oauth_codes = table(
    "oauth_codes",
    sa.Column("code_id", sa.Uuid, primary_key=True),
    sa.Column("client_id", sa.Uuid, deleted_with("oauth_clients.client_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("redirect_uri", sa.Text, nullable=False),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("code_challenge", sa.Text, nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
    sa.Column("family_id", sa.Uuid, deleted_with("oauth_token_families.family_id")),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    sa.Column("confirmed_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_codes_client", "client_id"),
    sa.Index("ix_oauth_codes_principal", "organization_id", "principal_id", "client_id"),
    sa.Index("ix_oauth_codes_family", "family_id"),
    sa.Index("ix_oauth_codes_expires", "organization_id", "expires_at"),
)

# One that was used stays as long as its family lives, so that using it again is noticed.
oauth_refresh_tokens = table(
    "oauth_refresh_tokens",
    sa.Column("token_id", sa.Uuid, primary_key=True),
    sa.Column("family_id", sa.Uuid, deleted_with("oauth_token_families.family_id"), nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_refresh_tokens_family", "family_id", "expires_at"),
)

# Client and person are repeated from the family, so that a request is authenticated by one look-up.
oauth_access_tokens = table(
    "oauth_access_tokens",
    sa.Column("token_id", sa.Uuid, primary_key=True),
    sa.Column("family_id", sa.Uuid, deleted_with("oauth_token_families.family_id"), nullable=False),
    sa.Column("client_id", sa.Uuid, deleted_with("oauth_clients.client_id"), nullable=False),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("revoked_at", sa.DateTime(timezone=True)),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_access_tokens_family", "family_id"),
    sa.Index("ix_oauth_access_tokens_client", "client_id"),
    sa.Index("ix_oauth_access_tokens_expires", "organization_id", "expires_at"),
    sa.Index("ix_oauth_access_tokens_principal", "principal_id"),
)
