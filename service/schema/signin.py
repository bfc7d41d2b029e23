"""Sign-in: sessions, providers, second factors, OAuth clients, consents, tokens. Secrets are stored as SHA-256."""

import sqlalchemy as sa

from service.schema.tables import deleted_with, table

# `password_mark` is of the password at the sign-in: a new password ends the session. NULL: the sign-in was at the
# provider `provider_id` (OpenID Connect), whose session has the id `provider_session`; `sealed_id_token` is its
# encrypted ID token, for the sign-out there.
browser_sessions = table(
    "browser_sessions",
    sa.Column("session_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("password_mark", sa.LargeBinary),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Column("address", sa.Text),
    sa.Column("device", sa.Text),
    sa.Column("provider_id", sa.Uuid),
    sa.Column("provider_session", sa.Text),
    sa.Column("sealed_id_token", sa.LargeBinary),
    sa.Column("confirmed_at", sa.DateTime(timezone=True)),
    sa.Index("ix_browser_sessions_expires", "organization_id", "expires_at"),
    sa.Index("ix_browser_sessions_principal", "organization_id", "principal_id"),
)

# The secret lets a person set a password once. Each person has only the latest invitation.
invitations = table(
    "invitations",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
)

# `subject` is the hash of an account's or network's address, even if no such account exists.
sign_in_attempts = table(
    "sign_in_attempts",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("subject", sa.LargeBinary, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("blocked_until", sa.DateTime(timezone=True), nullable=False),
    sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=False),
)

# Failed sign-ins of a person from one network since `began_at`, counted here because audit entries never change.
failed_sign_ins = table(
    "failed_sign_ins",
    sa.Column("audit_log_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("network", sa.Text, nullable=False),
    sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Index("uq_failed_sign_ins_began", "organization_id", "principal_id", "began_at", "network", unique=True),
)

# People of an OpenID Connect provider by issuer and subject, which never change.
upstream_identities = table(
    "upstream_identities",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("bound_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("uq_upstream_identities_principal", "organization_id", "issuer", "principal_id", unique=True),
    sa.Index("ix_upstream_identities_principal", "principal_id"),
)

# A person's second factors. For an authenticator app: its encrypted secret (NULL if the key was lost), and the time
# step of the last used code, so that no code is used twice.
second_factors = table(
    "second_factors",
    sa.Column("factor_id", sa.Uuid, primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary),
    sa.Column("last_step", sa.BigInteger),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("last_used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_second_factors_principal", "organization_id", "principal_id"),
    sa.Index("uq_second_factors_totp", "principal_id", unique=True, postgresql_where=sa.text("kind = 'totp'")),
)

# A passkey's further values (WebAuthn): the authenticator's id and public key, the random name by which it knows the
# person, its count of uses, if any, and whether it may be synced (unknown for older passkeys until used).
passkeys = table(
    "passkeys",
    sa.Column("factor_id", sa.Uuid, deleted_with("second_factors.factor_id"), primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("credential_id", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("public_key", sa.LargeBinary, nullable=False),
    sa.Column("user_handle", sa.LargeBinary, nullable=False),
    sa.Column("sign_count", sa.BigInteger, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("synced", sa.Boolean),
    sa.Index("ix_passkeys_principal", "organization_id", "principal_id"),
)

# The SHA-256 of each answered passkey challenge until it expires, so that no challenge is answered twice.
answered_challenges = table(
    "answered_challenges",
    sa.Column("challenge_hash", sa.LargeBinary, primary_key=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("ix_answered_challenges_expires", "organization_id", "expires_at"),
)

# Each code replaces a lost second factor once; only its SHA-256 is stored.
recovery_codes = table(
    "recovery_codes",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("code_hash", sa.LargeBinary, primary_key=True),
)

# Sign-ins with a correct password that still need a second factor, or must set one up. They are no sessions.
pending_sign_ins = table(
    "pending_sign_ins",
    sa.Column("secret_hash", sa.LargeBinary, primary_key=True),
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), nullable=False),
    sa.Column("password_mark", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("ix_pending_sign_ins_expires", "organization_id", "expires_at"),
    sa.Index("ix_pending_sign_ins_principal", "principal_id"),
)

# OpenID Connect providers. `sealed_secret` is encrypted with the deployment's secret key; NULL if that key was lost.
sign_in_providers = table(
    "sign_in_providers",
    sa.Column("provider_id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("issuer", sa.Text, nullable=False),
    sa.Column("client_id", sa.Text, nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary),
    sa.Column("trust_addresses", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("groups_claim", sa.Text, nullable=False, server_default=sa.text("'NONE'")),
    sa.Column("create_accounts", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("sign_out_there", sa.Boolean, nullable=False, server_default=sa.text("false")),
    # Further audiences that the provider's tokens may have besides the client id.
    sa.Column("accepted_audiences", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("ARRAY[]::text[]")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("uq_sign_in_providers_issuer", "organization_id", "issuer", unique=True),
)

# The provider for a domain's addresses: one per organization, and across organizations only the one with the confirmed
# domain. So an address leads to its provider before sign-in, and no organization can take another's domain.
sign_in_domains = table(
    "sign_in_domains",
    sa.Column("domain", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("provider_id", sa.Uuid, deleted_with("sign_in_providers.provider_id"), nullable=False),
    sa.Column("confirmed_at", sa.DateTime(timezone=True)),
    sa.Index("ix_sign_in_domains_provider", "provider_id"),
    sa.Index(
        "uq_sign_in_domains_confirmed", "domain", unique=True, postgresql_where=sa.text("confirmed_at IS NOT NULL")
    ),
)

# Memberships from a provider's tokens: later tokens may remove only these.
provider_memberships = table(
    "provider_memberships",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("group_id", sa.Uuid, primary_key=True),
    sa.Column("member_id", sa.Uuid, primary_key=True),
    sa.Column("provider_id", sa.Uuid, deleted_with("sign_in_providers.provider_id"), primary_key=True),
    sa.ForeignKeyConstraint(
        ["organization_id", "group_id", "member_id"],
        ["group_members.organization_id", "group_members.group_id", "group_members.member_id"],
        name="fk_provider_memberships_membership",
        ondelete="CASCADE",
    ),
    sa.Index("ix_provider_memberships_provider", "provider_id", "member_id"),
)


# A pending client (requested by a member, not yet approved by an admin) can do nothing. A public client has the hash of
# an unknown secret. For a client described by a document (`document_url`), the row is the document's latest content,
# and the id is derived from the address.
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

# A person's consent to a client: all scopes, and the collections (NULL: all readable). Revoking it deletes the row.
# `last_used_at` is of its purged tokens.
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

# All tokens that descend from one code are revoked together (RFC 9700, section 4.14.2). Address and device are of the
# browser in which the person consented, as in the code.
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

# `family_id` is the family of a used code's tokens.
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

# A used token stays as long as its family, so that a second use is noticed.
oauth_refresh_tokens = table(
    "oauth_refresh_tokens",
    sa.Column("token_id", sa.Uuid, primary_key=True),
    sa.Column("family_id", sa.Uuid, deleted_with("oauth_token_families.family_id"), nullable=False),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("used_at", sa.DateTime(timezone=True)),
    sa.Index("ix_oauth_refresh_tokens_family", "family_id", "expires_at"),
)

# Client and person repeat the family's, so that authenticating a request needs one look-up.
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
