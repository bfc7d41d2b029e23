"""Sign-in: sessions, providers, second factors, OAuth clients, consents, tokens. Secrets are stored as SHA-256."""

import sqlalchemy as sa

from service.schema.tables import deleted_with, table

# `password_mark` is of the password of the sign-in: another password ends the session. None: signed in
# elsewhere (OpenID Connect): at `provider_id`, whose own session has the id `provider_session`; `sealed_id_token` is
# the ID token, encrypted, which the provider is shown when the person signs out.
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

# By its secret a person sets a password, once. Each person has one at most: the latest.
invitations = table(
    "invitations",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
)

# `subject` is the hash of an account's or a network's address, whether there is such an account or not.
sign_in_attempts = table(
    "sign_in_attempts",
    sa.Column("organization_id", sa.Uuid, sa.ForeignKey("organizations.organization_id"), primary_key=True),
    sa.Column("subject", sa.LargeBinary, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("blocked_until", sa.DateTime(timezone=True), nullable=False),
    sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=False),
)

# Failed sign-ins of a person from one network since `began_at`: their audit entry stays as it is, so the count is here.
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

# People of an upstream OpenID Connect provider, by what never changes there: its issuer and subject.
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

# A person's second factors. Of an authenticator app: its secret, encrypted (None: the key that it was
# encrypted under is lost), and the step of time whose code was used last, so that none is used twice.
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

# What a second factor that is a passkey has besides (WebAuthn): the authenticator's id and public key of it, the random
# name that the authenticator knows the person by, how often it was used, as far as the authenticator counts, and
# whether it may be synced to other devices (not known of those made before that was kept, until they are used).
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

# The SHA-256 of each challenge that was answered with a passkey, until it expires: none is answered twice.
answered_challenges = table(
    "answered_challenges",
    sa.Column("challenge_hash", sa.LargeBinary, primary_key=True),
    sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("ix_answered_challenges_expires", "organization_id", "expires_at"),
)

# Each stands in for a second factor that was lost, once; of the code only the SHA-256.
recovery_codes = table(
    "recovery_codes",
    sa.Column("principal_id", sa.Uuid, sa.ForeignKey("principals.principal_id"), primary_key=True),
    sa.Column("code_hash", sa.LargeBinary, primary_key=True),
)

# Who has given the right password in a browser, and has to give a second factor, or set one up. It is no session.
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

# OpenID Connect providers that an organization's people sign in with. `sealed_secret` is encrypted under the
# deployment's secret key; NULL once that key was lost.
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
    # Audiences that its tokens may name with the client id.
    sa.Column("accepted_audiences", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("ARRAY[]::text[]")),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Index("uq_sign_in_providers_issuer", "organization_id", "issuer", unique=True),
)

# Which provider decides about the addresses of a domain: one in an organization, and of the organizations that claim it
# the one that it is confirmed for. So an address leads to its provider before anybody is known, and no organization can
# take the domain of another.
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

# Memberships from a provider's tokens: only these may be removed by later tokens.
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

# A person's consent to a client, all scopes together, and in which collections (NULL: wherever they may read); taking
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
