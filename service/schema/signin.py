"""Who is signed in with which browser and by which provider, who may set a password, and which sign-ins failed."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    func,
    text,
)

from service.platform.database import metadata

# `password_mark` is of the password somebody signed in with: another password ends the session. None: signed in
# elsewhere (OpenID Connect): at `provider_id`, whose own session has the id `provider_session`; `sealed_id_token` is
# the ID token, encrypted, which the provider is shown when the person signs out.
browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("password_mark", LargeBinary),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("last_used_at", DateTime(timezone=True)),
    Column("address", Text),
    Column("device", Text),
    Column("provider_id", Uuid),
    Column("provider_session", Text),
    Column("sealed_id_token", LargeBinary),
    Column("confirmed_at", DateTime(timezone=True)),
    Index("ix_browser_sessions_expires", "organization_id", "expires_at"),
    Index("ix_browser_sessions_principal", "organization_id", "principal_id"),
)

# By its secret somebody sets a password, once. Each person has one at most: the latest.
invitations = Table(
    "invitations",
    metadata,
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

# `subject` is the hash of an account's or a network's address, whether there is such an account or not.
sign_in_attempts = Table(
    "sign_in_attempts",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("subject", LargeBinary, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("blocked_until", DateTime(timezone=True), nullable=False),
    Column("forgotten_at", DateTime(timezone=True), nullable=False),
)

# Failed sign-ins of a person from one network since `began_at`: their audit entry stays as it is, so the count is here.
failed_sign_ins = Table(
    "failed_sign_ins",
    metadata,
    Column("audit_log_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("network", Text, nullable=False),
    Column("began_at", DateTime(timezone=True), nullable=False),
    Column("last_at", DateTime(timezone=True), nullable=False),
    Column("attempts", Integer, nullable=False),
    Index("uq_failed_sign_ins_began", "organization_id", "principal_id", "began_at", "network", unique=True),
)

# People of an upstream OpenID Connect provider, by what never changes there: its issuer and subject.
upstream_identities = Table(
    "upstream_identities",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("bound_at", DateTime(timezone=True), nullable=False),
    Index("uq_upstream_identities_principal", "organization_id", "issuer", "principal_id", unique=True),
    Index("ix_upstream_identities_principal", "principal_id"),
)

# What somebody has beside their password. Of an authenticator app: its secret, encrypted (None: the key that it was
# encrypted under is lost), and the step of time whose code was used last, so that none is used twice.
second_factors = Table(
    "second_factors",
    metadata,
    Column("factor_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("sealed_secret", LargeBinary),
    Column("last_step", BigInteger),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("last_used_at", DateTime(timezone=True)),
    Index("ix_second_factors_principal", "organization_id", "principal_id"),
    Index("uq_second_factors_totp", "principal_id", unique=True, postgresql_where=text("kind = 'totp'")),
)

# What a second factor that is a passkey has besides (WebAuthn): the authenticator's id and public key of it, the random
# name that the authenticator knows the person by, how often it was used, as far as the authenticator counts, and
# whether it may be synced to other devices (not known of those made before that was kept, until they are used).
passkeys = Table(
    "passkeys",
    metadata,
    Column("factor_id", Uuid, ForeignKey("second_factors.factor_id", ondelete="CASCADE"), primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("credential_id", LargeBinary, nullable=False, unique=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("user_handle", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("synced", Boolean),
    Index("ix_passkeys_principal", "organization_id", "principal_id"),
)

# The SHA-256 of each challenge that was answered with a passkey, until it expires: none is answered twice.
answered_challenges = Table(
    "answered_challenges",
    metadata,
    Column("challenge_hash", LargeBinary, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("ix_answered_challenges_expires", "organization_id", "expires_at"),
)

# Each stands in for a second factor that was lost, once; of the code only the SHA-256.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), primary_key=True),
    Column("code_hash", LargeBinary, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
)

# Who has given the right password in a browser, and has to give a second factor, or set one up. It is no session.
pending_sign_ins = Table(
    "pending_sign_ins",
    metadata,
    Column("secret_hash", LargeBinary, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("principal_id", Uuid, ForeignKey("principals.principal_id"), nullable=False),
    Column("password_mark", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("ix_pending_sign_ins_expires", "organization_id", "expires_at"),
    Index("ix_pending_sign_ins_principal", "principal_id"),
)

# OpenID Connect providers that an organization's people sign in with. `sealed_secret` is encrypted under the
# deployment's secret key; NULL once that key was lost.
sign_in_providers = Table(
    "sign_in_providers",
    metadata,
    Column("provider_id", Uuid, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("client_id", Text, nullable=False),
    Column("sealed_secret", LargeBinary),
    Column("trust_addresses", Boolean, nullable=False, server_default=text("false")),
    Column("groups_claim", Text, nullable=False, server_default=text("'NONE'")),
    Column("create_accounts", Boolean, nullable=False, server_default=text("false")),
    Column("sign_out_there", Boolean, nullable=False, server_default=text("false")),
    # Audiences that its tokens may name beside the client id.
    Column("accepted_audiences", ARRAY(Text), nullable=False, server_default=text("ARRAY[]::text[]")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("uq_sign_in_providers_issuer", "organization_id", "issuer", unique=True),
)

# Which provider decides about the addresses of a domain: one in an organization, and of the organizations that claim it
# the one that it is confirmed for. So an address leads to its provider before anybody is known, and no organization can
# take the domain of another.
sign_in_domains = Table(
    "sign_in_domains",
    metadata,
    Column("domain", Text, primary_key=True),
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("provider_id", Uuid, ForeignKey("sign_in_providers.provider_id", ondelete="CASCADE"), nullable=False),
    Column("confirmed_at", DateTime(timezone=True)),
    Index("ix_sign_in_domains_provider", "provider_id"),
    Index("uq_sign_in_domains_confirmed", "domain", unique=True, postgresql_where=text("confirmed_at IS NOT NULL")),
)

# Memberships that a provider's tokens brought: those it may take away again. Others stay as they are.
provider_memberships = Table(
    "provider_memberships",
    metadata,
    Column("organization_id", Uuid, ForeignKey("organizations.organization_id"), primary_key=True),
    Column("group_id", Uuid, primary_key=True),
    Column("member_id", Uuid, primary_key=True),
    Column("provider_id", Uuid, ForeignKey("sign_in_providers.provider_id", ondelete="CASCADE"), primary_key=True),
    ForeignKeyConstraint(
        ["organization_id", "group_id", "member_id"],
        ["group_members.organization_id", "group_members.group_id", "group_members.member_id"],
        name="fk_provider_memberships_membership",
        ondelete="CASCADE",
    ),
    Index("ix_provider_memberships_provider", "provider_id", "member_id"),
)
