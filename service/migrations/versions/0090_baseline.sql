-- The tables of the baseline (0090_baseline.py), as version 0.4.0 has them. service/schema says what each column means.
-- A change of the schema is a new migration; this file stays as it is.

-- The functions that indexes below and the chunks' indexes are on.

-- A chunk's terms as keys of an index: of each term its space, its number, and how much it weighs in four steps.
CREATE FUNCTION term_keys(space_id integer, terms sparsevec) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
RETURN (
    SELECT array_agg(
        (space_id::bigint << 31) + ((split_part(entry, ':', 1)::bigint - 1) << 2)
        + width_bucket(split_part(entry, ':', 2)::float8, ARRAY[0.5, 0.6, 0.7]::float8[])
    )
    FROM string_to_table(split_part(ltrim(terms::text, '{'), '}', 1), ',') AS entry
    WHERE entry <> ''
);

-- The spelling that values are compared in, without accents, capitals and punctuation.
CREATE FUNCTION metadata_key(value text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN btrim(regexp_replace(
    translate(
        regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]+' COLLATE "C", '', 'g'),
        'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'
    ),
    '[\x01-/:-@\[-`{-\x7f]+' COLLATE "C", ' ', 'g'
));

-- The keys of a document's short values, but for numbers, times and truth values.
CREATE FUNCTION metadata_keys(space_id integer, metadata jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 1000
RETURN (
    SELECT array_agg(DISTINCT space_id::text || ':' || metadata_key(entry.value))
    FROM jsonb_each_text(metadata) AS entry
    WHERE length(entry.value) <= 100 AND entry.value NOT IN ('true', 'false')
        AND metadata_key(entry.value) ~ '[^0-9 ]' AND entry.value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}'
);

-- Organizations, the principals in them, group membership, and credentials.

CREATE TABLE organizations (
    organization_id uuid CONSTRAINT pk_organizations PRIMARY KEY,
    name text NOT NULL,
    domain text NOT NULL,
    service_accounts_enabled boolean DEFAULT false NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    second_factor text DEFAULT 'NOBODY' NOT NULL,
    client_document_hosts text[] DEFAULT ARRAY[]::text[] NOT NULL,
    enable_reranking boolean DEFAULT false NOT NULL,
    enable_query_model boolean DEFAULT false NOT NULL,
    passwords_enabled boolean DEFAULT true NOT NULL,
    owner_sharing_enabled boolean DEFAULT false NOT NULL
);

CREATE TABLE principals (
    principal_id uuid CONSTRAINT pk_principals PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_principals_organization_id REFERENCES organizations,
    kind text NOT NULL,
    name text NOT NULL,
    email text,
    external_id text,
    is_admin boolean DEFAULT false NOT NULL,
    active boolean DEFAULT true NOT NULL,
    password_hash text,
    created_at timestamptz DEFAULT now() NOT NULL,
    deleted_at timestamptz,
    released_at timestamptz,
    CONSTRAINT ck_principals_admin_is_user CHECK (kind = 'user' OR NOT is_admin),
    CONSTRAINT ck_principals_deleted CHECK (deleted_at IS NULL OR (kind = 'serviceAccount' AND NOT active)),
    CONSTRAINT ck_principals_email CHECK ((kind IN ('user', 'serviceAccount')) = (email IS NOT NULL)),
    CONSTRAINT ck_principals_email_lower CHECK (email = lower(email)),
    CONSTRAINT ck_principals_kind CHECK (kind IN ('user', 'group', 'serviceAccount', 'everyone'))
);
CREATE INDEX ix_principals_kind ON principals (organization_id, kind, principal_id);
CREATE UNIQUE INDEX uq_principals_email ON principals (organization_id, email);
CREATE UNIQUE INDEX uq_principals_kind_external_id ON principals (organization_id, kind, external_id);

CREATE TABLE scim_tokens (
    token_id uuid CONSTRAINT pk_scim_tokens PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_scim_tokens_organization_id REFERENCES organizations,
    name text NOT NULL,
    hint text NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT uq_scim_tokens_secret_hash UNIQUE,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX ix_scim_tokens_organization ON scim_tokens (organization_id, token_id);

CREATE TABLE api_keys (
    api_key_id uuid CONSTRAINT pk_api_keys PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_api_keys_organization_id REFERENCES organizations,
    owner_id uuid NOT NULL CONSTRAINT fk_api_keys_owner_id REFERENCES principals,
    name text NOT NULL,
    hint text NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT uq_api_keys_secret_hash UNIQUE,
    may_act_for_users boolean DEFAULT false NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX ix_api_keys_organization ON api_keys (organization_id, api_key_id);
CREATE INDEX ix_api_keys_owner ON api_keys (owner_id);

CREATE TABLE group_members (
    organization_id uuid NOT NULL CONSTRAINT fk_group_members_organization_id REFERENCES organizations,
    group_id uuid NOT NULL CONSTRAINT fk_group_members_group_id REFERENCES principals ON DELETE CASCADE,
    member_id uuid NOT NULL CONSTRAINT fk_group_members_member_id REFERENCES principals ON DELETE CASCADE,
    member_is_group boolean NOT NULL,
    CONSTRAINT pk_group_members PRIMARY KEY (organization_id, group_id, member_id)
);
CREATE INDEX ix_group_members_member ON group_members (organization_id, member_id, group_id);
CREATE INDEX ix_group_members_nested ON group_members (organization_id, group_id, member_id) WHERE member_is_group;

CREATE TABLE service_account_tokens (
    token_id uuid CONSTRAINT pk_service_account_tokens PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_service_account_tokens_organization_id REFERENCES organizations,
    service_account_id uuid NOT NULL CONSTRAINT fk_service_account_tokens_service_account_id REFERENCES principals,
    name text NOT NULL,
    description text,
    scopes text[] NOT NULL,
    hint text NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT uq_service_account_tokens_secret_hash UNIQUE,
    created_at timestamptz DEFAULT now() NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX ix_service_account_tokens_account
    ON service_account_tokens (organization_id, service_account_id, token_id);
CREATE INDEX ix_service_account_tokens_organization ON service_account_tokens (organization_id, token_id);

-- Access classes, which resources with the same readers share.

CREATE TABLE access_classes (
    access_class bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_access_classes PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_access_classes_organization_id REFERENCES organizations,
    digest bytea NOT NULL,
    CONSTRAINT uq_access_classes_organization_id_digest UNIQUE (organization_id, digest)
);

CREATE TABLE class_readers (
    organization_id uuid NOT NULL CONSTRAINT fk_class_readers_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_class_readers_principal_id REFERENCES principals ON DELETE CASCADE,
    access_class bigint NOT NULL CONSTRAINT fk_class_readers_access_class REFERENCES access_classes,
    role text NOT NULL,
    CONSTRAINT pk_class_readers PRIMARY KEY (organization_id, principal_id, access_class, role),
    CONSTRAINT ck_class_readers_role CHECK (role IN ('OWNER', 'EDITOR', 'VIEWER'))
);
CREATE INDEX ix_class_readers_class ON class_readers (organization_id, access_class, principal_id);

CREATE TABLE resources (
    object_id uuid CONSTRAINT pk_resources PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_resources_organization_id REFERENCES organizations,
    resource_type text NOT NULL,
    resource_id text NOT NULL,
    access_class bigint NOT NULL CONSTRAINT fk_resources_access_class REFERENCES access_classes,
    container_id uuid,
    shares jsonb,
    CONSTRAINT uq_resources_object_id_access_class UNIQUE (object_id, access_class),
    CONSTRAINT uq_resources_organization_id_resource_type_resource_id
        UNIQUE (organization_id, resource_type, resource_id),
    CONSTRAINT fk_resources_container_id_access_class FOREIGN KEY (container_id, access_class)
        REFERENCES resources (object_id, access_class)
);
CREATE INDEX ix_resources_class ON resources (organization_id, access_class, object_id);
CREATE INDEX ix_resources_class_type ON resources (organization_id, access_class, resource_type, object_id);
CREATE INDEX ix_resources_container ON resources (container_id, access_class) WHERE container_id IS NOT NULL;
CREATE INDEX ix_resources_object ON resources (organization_id, object_id) INCLUDE (access_class);
CREATE INDEX ix_resources_type ON resources (organization_id, resource_type, object_id) INCLUDE (access_class);

-- The append-only audit log; free text lies apart, so that retention and erasure can empty it.

CREATE TABLE audit_entries (
    audit_log_id uuid CONSTRAINT pk_audit_entries PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_audit_entries_organization_id REFERENCES organizations,
    at timestamptz DEFAULT now() NOT NULL,
    actor_id uuid,
    acting_for_id uuid,
    credential_id uuid,
    action text NOT NULL,
    target_type text,
    target_id text,
    details jsonb DEFAULT '{}' NOT NULL,
    request_id text,
    actor_name text,
    acting_for_name text,
    target_name text,
    address text,
    device text
);
CREATE INDEX ix_audit_entries_at ON audit_entries (organization_id, at, audit_log_id);
CREATE INDEX ix_audit_entries_sign_ins ON audit_entries (organization_id, actor_id, at) WHERE action = 'session.begin';
CREATE INDEX ix_audit_entries_target ON audit_entries (organization_id, target_id, at, audit_log_id);

CREATE TABLE free_texts (
    subject_id uuid CONSTRAINT pk_free_texts PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_free_texts_organization_id REFERENCES organizations,
    text text NOT NULL
);

-- Documents, their versions, the newest one's text, the pages of it to be read by machine, and files left out of it.

CREATE TABLE unused_files (
    sha256 bytea CONSTRAINT pk_unused_files PRIMARY KEY,
    size bigint NOT NULL,
    since timestamptz DEFAULT now() NOT NULL
);

CREATE TABLE documents (
    document_id uuid CONSTRAINT pk_documents PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_documents_organization_id REFERENCES organizations,
    external_id text NOT NULL,
    name text NOT NULL,
    external_url text,
    owner_id uuid NOT NULL CONSTRAINT fk_documents_owner_id REFERENCES principals,
    version integer NOT NULL,
    custom_metadata jsonb DEFAULT '{}' NOT NULL,
    fingerprint text,
    source_updated_at timestamptz,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    deleted_at timestamptz,
    named_by text
);
CREATE INDEX ix_documents_created ON documents (organization_id, created_at, document_id);
CREATE INDEX ix_documents_name ON documents (organization_id, "left"(lower(name), 200), document_id)
    WHERE deleted_at IS NULL;
CREATE INDEX ix_documents_owner ON documents (owner_id);
CREATE INDEX ix_documents_updated ON documents (organization_id, updated_at, document_id) WHERE deleted_at IS NULL;

CREATE TABLE document_contents (
    document_id uuid CONSTRAINT pk_document_contents PRIMARY KEY
        CONSTRAINT fk_document_contents_document_id REFERENCES documents,
    organization_id uuid NOT NULL CONSTRAINT fk_document_contents_organization_id REFERENCES organizations,
    version integer NOT NULL,
    title text,
    blocks bytea NOT NULL
);

CREATE TABLE document_versions (
    document_id uuid NOT NULL CONSTRAINT fk_document_versions_document_id REFERENCES documents,
    version integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_document_versions_organization_id REFERENCES organizations,
    file_sha256 bytea NOT NULL,
    file_size bigint NOT NULL,
    file_name text NOT NULL,
    media_type text NOT NULL,
    created_by uuid NOT NULL CONSTRAINT fk_document_versions_created_by REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL,
    not_read jsonb,
    file_count integer,
    files_done integer,
    reads_pictures boolean DEFAULT false NOT NULL,
    CONSTRAINT pk_document_versions PRIMARY KEY (document_id, version)
);
CREATE INDEX ix_document_versions_created_by ON document_versions (created_by);
CREATE INDEX ix_document_versions_file ON document_versions (file_sha256, organization_id);
CREATE INDEX ix_document_versions_size ON document_versions (organization_id, file_size, document_id, version);

CREATE TABLE left_out_files (
    document_id uuid NOT NULL CONSTRAINT fk_left_out_files_document_id REFERENCES documents,
    file_no integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_left_out_files_organization_id REFERENCES organizations,
    path text,
    code text NOT NULL,
    message text NOT NULL,
    CONSTRAINT pk_left_out_files PRIMARY KEY (document_id, file_no)
);

CREATE TABLE scanned_pages (
    document_id uuid NOT NULL CONSTRAINT fk_scanned_pages_document_id REFERENCES documents,
    page integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_scanned_pages_organization_id REFERENCES organizations,
    file_sha256 bytea NOT NULL,
    state text NOT NULL,
    blocks bytea,
    error text,
    picture_page integer,
    address text,
    sheet text,
    after integer,
    CONSTRAINT pk_scanned_pages PRIMARY KEY (document_id, page),
    CONSTRAINT ck_scanned_pages_state CHECK (state IN ('WAITING', 'READ', 'FAILED'))
);
CREATE INDEX ix_scanned_pages_unfinished ON scanned_pages (organization_id, document_id)
    WHERE state = 'WAITING' OR blocks IS NOT NULL;

-- Deleted documents that can be restored, and changes of all documents that match filters.

CREATE TABLE trashed_documents (
    organization_id uuid NOT NULL CONSTRAINT fk_trashed_documents_organization_id REFERENCES organizations,
    trashed_document_id uuid CONSTRAINT pk_trashed_documents PRIMARY KEY,
    document_id uuid NOT NULL,
    resource_type text NOT NULL,
    resource_id text NOT NULL,
    readers jsonb NOT NULL,
    collections jsonb NOT NULL,
    deleted_by uuid NOT NULL,
    deleted_at timestamptz DEFAULT now() NOT NULL
);
CREATE INDEX ix_trashed_documents_deleted
    ON trashed_documents (organization_id, deleted_at, trashed_document_id);

CREATE TABLE document_changes (
    organization_id uuid NOT NULL CONSTRAINT fk_document_changes_organization_id REFERENCES organizations,
    document_change_id uuid CONSTRAINT pk_document_changes PRIMARY KEY,
    principal_id uuid NOT NULL,
    origin jsonb NOT NULL,
    request jsonb NOT NULL,
    "position" uuid,
    state jsonb NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL
);
CREATE INDEX ix_document_changes_started ON document_changes (organization_id, started_at);

-- Spaces (the catalog, each collection) and their index; chunks, vectors and code pages are in 0090_index.sql.

CREATE TABLE term_deltas (
    organization_id uuid NOT NULL,
    space_id integer NOT NULL,
    term integer NOT NULL,
    delta_id bigint GENERATED ALWAYS AS IDENTITY,
    delta integer NOT NULL,
    CONSTRAINT pk_term_deltas PRIMARY KEY (organization_id, space_id, term, delta_id) INCLUDE (delta)
);

CREATE TABLE spaces (
    space_id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_spaces PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_spaces_organization_id REFERENCES organizations,
    model text NOT NULL,
    dimensions integer NOT NULL,
    language text DEFAULT 'english' NOT NULL,
    is_catalog boolean DEFAULT false NOT NULL,
    replaces_space_id integer CONSTRAINT fk_spaces_replaces_space_id REFERENCES spaces,
    replaced_by_space_id integer CONSTRAINT fk_spaces_replaced_by_space_id REFERENCES spaces,
    retired_at timestamptz
);
CREATE INDEX ix_spaces_replaced_by ON spaces (replaced_by_space_id) WHERE replaced_by_space_id IS NOT NULL;
CREATE UNIQUE INDEX uq_spaces_catalog ON spaces (organization_id) WHERE is_catalog;
CREATE UNIQUE INDEX uq_spaces_replaces ON spaces (replaces_space_id) WHERE replaces_space_id IS NOT NULL;

CREATE TABLE term_statistics (
    space_id integer NOT NULL CONSTRAINT fk_term_statistics_space_id REFERENCES spaces,
    term integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_term_statistics_organization_id REFERENCES organizations,
    frequency bigint NOT NULL,
    CONSTRAINT pk_term_statistics PRIMARY KEY (space_id, term)
);

CREATE TABLE space_documents (
    document_id uuid NOT NULL CONSTRAINT fk_space_documents_document_id REFERENCES documents,
    space_id integer NOT NULL CONSTRAINT fk_space_documents_space_id REFERENCES spaces,
    organization_id uuid NOT NULL CONSTRAINT fk_space_documents_organization_id REFERENCES organizations,
    version integer NOT NULL,
    indexed_version integer,
    chunk_count integer DEFAULT 0 NOT NULL,
    chunks_expected integer DEFAULT 0 NOT NULL,
    chunks_embedded integer DEFAULT 0 NOT NULL,
    caller_chunks boolean DEFAULT false NOT NULL,
    custom_metadata jsonb DEFAULT '{}' NOT NULL,
    claimed_until timestamptz,
    attempts integer DEFAULT 0 NOT NULL,
    error text,
    added_at timestamptz DEFAULT now() NOT NULL,
    is_large boolean DEFAULT false NOT NULL,
    language text,
    forms smallint DEFAULT 0 NOT NULL,
    words_version integer,
    CONSTRAINT pk_space_documents PRIMARY KEY (document_id, space_id)
);
CREATE INDEX ix_space_documents_forms ON space_documents (space_id, forms) WHERE chunk_count > 0;
CREATE INDEX ix_space_documents_meaning ON space_documents (organization_id, is_large, claimed_until)
    WHERE words_version = version AND indexed_version IS DISTINCT FROM version;
CREATE INDEX ix_space_documents_pending ON space_documents (organization_id, is_large, claimed_until)
    WHERE indexed_version IS DISTINCT FROM version;
CREATE INDEX ix_space_documents_space ON space_documents (space_id, document_id);
-- New entries lie in a list of at most 64 KB first, which every look-up reads to its end.
CREATE INDEX ix_space_documents_values
    ON space_documents USING gin (metadata_keys(space_id, custom_metadata)) WITH (gin_pending_list_limit = 64);
CREATE INDEX ix_space_documents_words ON space_documents (organization_id, is_large, claimed_until)
    WHERE words_version IS DISTINCT FROM version AND indexed_version IS DISTINCT FROM version;

-- A release that knows the column `forms` writes the negative number of its word forms, which the trigger turns. An
-- earlier release leaves the column out, and the trigger sets 0. A request for indexing (NULL) changes no forms.
CREATE FUNCTION note_forms() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.forms := greatest(-NEW.forms, 0); RETURN NEW; END';
CREATE TRIGGER note_forms BEFORE UPDATE OF indexed_version ON space_documents
    FOR EACH ROW WHEN (NEW.indexed_version IS NOT NULL) EXECUTE FUNCTION note_forms();

-- Document collections, whose documents are in space_documents.

CREATE TABLE collections (
    collection_id uuid CONSTRAINT pk_collections PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_collections_organization_id REFERENCES organizations,
    space_id integer NOT NULL CONSTRAINT fk_collections_space_id REFERENCES spaces,
    name text NOT NULL,
    distance_metric text NOT NULL,
    schema_fields jsonb NOT NULL,
    created_by uuid NOT NULL CONSTRAINT fk_collections_created_by REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL,
    former_names text[] DEFAULT '{}' NOT NULL,
    CONSTRAINT uq_collections_organization_id_name UNIQUE (organization_id, name),
    CONSTRAINT ck_collections_distance_metric CHECK (distance_metric IN ('EUCLIDEAN', 'COSINE', 'DOTPRODUCT'))
);
CREATE INDEX ix_collections_created_by ON collections (created_by);
CREATE INDEX ix_collections_space ON collections (space_id);

CREATE TABLE caller_chunks (
    document_id uuid NOT NULL CONSTRAINT fk_caller_chunks_document_id REFERENCES documents,
    space_id integer NOT NULL CONSTRAINT fk_caller_chunks_space_id REFERENCES spaces,
    organization_id uuid NOT NULL CONSTRAINT fk_caller_chunks_organization_id REFERENCES organizations,
    batch_id uuid NOT NULL,
    chunks bytea NOT NULL,
    CONSTRAINT pk_caller_chunks PRIMARY KEY (document_id, space_id)
);
CREATE INDEX ix_caller_chunks_space ON caller_chunks (space_id);

-- Rebuilds of the index of a collection, or of the catalog, with another embedding model.

CREATE TABLE index_rebuilds (
    rebuild_id uuid CONSTRAINT pk_index_rebuilds PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_index_rebuilds_organization_id REFERENCES organizations,
    collection_id uuid CONSTRAINT fk_index_rebuilds_collection_id REFERENCES collections ON DELETE CASCADE,
    space_id integer NOT NULL,
    model text NOT NULL,
    previous_model text NOT NULL,
    status text DEFAULT 'RUNNING' NOT NULL,
    forced boolean DEFAULT false NOT NULL,
    left_count integer DEFAULT 0 NOT NULL,
    started_by uuid NOT NULL CONSTRAINT fk_index_rebuilds_started_by REFERENCES principals,
    started_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    CONSTRAINT ck_index_rebuilds_status CHECK (status IN ('RUNNING', 'COMPLETED', 'CANCELLED'))
);
CREATE INDEX ix_index_rebuilds_collection ON index_rebuilds (organization_id, collection_id);
CREATE INDEX ix_index_rebuilds_running ON index_rebuilds (organization_id) WHERE status = 'RUNNING';
CREATE INDEX ix_index_rebuilds_started_by ON index_rebuilds (started_by);

-- The search log, whose words lie in audit.free_texts, and the searches that people saved.

CREATE TABLE searches (
    search_id uuid CONSTRAINT pk_searches PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_searches_organization_id REFERENCES organizations,
    at timestamptz DEFAULT now() NOT NULL,
    principal_id uuid NOT NULL,
    collection_id uuid,
    mode text NOT NULL,
    result_count integer NOT NULL,
    request_id text,
    feedback text,
    document_ids uuid[],
    has_words boolean,
    origin uuid,
    thumbs jsonb DEFAULT '{}' NOT NULL
);
CREATE INDEX ix_searches_at ON searches (organization_id, at, search_id);
CREATE INDEX ix_searches_feedback ON searches (organization_id, feedback, at, search_id) WHERE feedback IS NOT NULL;
CREATE INDEX ix_searches_principal ON searches (organization_id, principal_id, at, search_id);
CREATE INDEX ix_searches_without_results ON searches (organization_id, at, search_id) WHERE result_count = 0;
CREATE INDEX ix_searches_without_words ON searches (organization_id, at, search_id) WHERE NOT has_words;

CREATE TABLE saved_searches (
    principal_id uuid NOT NULL CONSTRAINT fk_saved_searches_principal_id REFERENCES principals ON DELETE CASCADE,
    saved_search_id uuid NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_saved_searches_organization_id REFERENCES organizations,
    search_query text NOT NULL,
    collection_id uuid,
    mode text NOT NULL,
    metadata_filters jsonb NOT NULL,
    saved_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_saved_searches PRIMARY KEY (principal_id, saved_search_id)
);

-- Responses kept by Idempotency-Key, so that a request sent twice is done once.

CREATE TABLE kept_responses (
    organization_id uuid NOT NULL CONSTRAINT fk_kept_responses_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL,
    idempotency_key text NOT NULL,
    request_digest bytea NOT NULL,
    body bytea,
    headers jsonb DEFAULT '{}' NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_kept_responses PRIMARY KEY (organization_id, principal_id, idempotency_key)
);
CREATE INDEX ix_kept_responses_created ON kept_responses (organization_id, created_at);

-- Signing in: providers and their domains, browser sessions, second factors, invitations, and failed sign-ins.

CREATE TABLE answered_challenges (
    challenge_hash bytea CONSTRAINT pk_answered_challenges PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_answered_challenges_organization_id REFERENCES organizations,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ix_answered_challenges_expires ON answered_challenges (organization_id, expires_at);

CREATE TABLE sign_in_attempts (
    organization_id uuid NOT NULL CONSTRAINT fk_sign_in_attempts_organization_id REFERENCES organizations,
    subject bytea NOT NULL,
    failures integer NOT NULL,
    blocked_until timestamptz NOT NULL,
    forgotten_at timestamptz NOT NULL,
    CONSTRAINT pk_sign_in_attempts PRIMARY KEY (organization_id, subject)
);

CREATE TABLE sign_in_providers (
    provider_id uuid CONSTRAINT pk_sign_in_providers PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_sign_in_providers_organization_id REFERENCES organizations,
    name text NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    sealed_secret bytea,
    trust_addresses boolean DEFAULT false NOT NULL,
    groups_claim text DEFAULT 'NONE' NOT NULL,
    create_accounts boolean DEFAULT false NOT NULL,
    sign_out_there boolean DEFAULT false NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    accepted_audiences text[] DEFAULT ARRAY[]::text[] NOT NULL
);
CREATE UNIQUE INDEX uq_sign_in_providers_issuer ON sign_in_providers (organization_id, issuer);

CREATE TABLE browser_sessions (
    session_id uuid CONSTRAINT pk_browser_sessions PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_browser_sessions_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_browser_sessions_principal_id REFERENCES principals,
    secret_hash bytea NOT NULL CONSTRAINT uq_browser_sessions_secret_hash UNIQUE,
    password_mark bytea,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    address text,
    device text,
    last_used_at timestamptz,
    provider_id uuid,
    provider_session text,
    sealed_id_token bytea,
    confirmed_at timestamptz
);
CREATE INDEX ix_browser_sessions_expires ON browser_sessions (organization_id, expires_at);
CREATE INDEX ix_browser_sessions_principal ON browser_sessions (organization_id, principal_id);

CREATE TABLE failed_sign_ins (
    audit_log_id uuid CONSTRAINT pk_failed_sign_ins PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_failed_sign_ins_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_failed_sign_ins_principal_id REFERENCES principals,
    network text NOT NULL,
    began_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    attempts integer NOT NULL
);
CREATE UNIQUE INDEX uq_failed_sign_ins_began ON failed_sign_ins (organization_id, principal_id, began_at, network);

CREATE TABLE invitations (
    principal_id uuid CONSTRAINT pk_invitations PRIMARY KEY
        CONSTRAINT fk_invitations_principal_id REFERENCES principals,
    organization_id uuid NOT NULL CONSTRAINT fk_invitations_organization_id REFERENCES organizations,
    secret_hash bytea NOT NULL CONSTRAINT uq_invitations_secret_hash UNIQUE,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE pending_sign_ins (
    secret_hash bytea CONSTRAINT pk_pending_sign_ins PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_pending_sign_ins_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_pending_sign_ins_principal_id REFERENCES principals,
    password_mark bytea NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ix_pending_sign_ins_expires ON pending_sign_ins (organization_id, expires_at);
CREATE INDEX ix_pending_sign_ins_principal ON pending_sign_ins (principal_id);

CREATE TABLE recovery_codes (
    principal_id uuid NOT NULL CONSTRAINT fk_recovery_codes_principal_id REFERENCES principals,
    code_hash bytea NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_recovery_codes_organization_id REFERENCES organizations,
    CONSTRAINT pk_recovery_codes PRIMARY KEY (principal_id, code_hash)
);

CREATE TABLE second_factors (
    factor_id uuid CONSTRAINT pk_second_factors PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_second_factors_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_second_factors_principal_id REFERENCES principals,
    kind text NOT NULL,
    sealed_secret bytea,
    last_step bigint,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz
);
CREATE INDEX ix_second_factors_principal ON second_factors (organization_id, principal_id);
CREATE UNIQUE INDEX uq_second_factors_totp ON second_factors (principal_id) WHERE kind = 'totp';

CREATE TABLE sign_in_domains (
    domain text NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_sign_in_domains_organization_id REFERENCES organizations,
    provider_id uuid NOT NULL CONSTRAINT fk_sign_in_domains_provider_id REFERENCES sign_in_providers ON DELETE CASCADE,
    confirmed_at timestamptz,
    CONSTRAINT pk_sign_in_domains PRIMARY KEY (organization_id, domain)
);
CREATE INDEX ix_sign_in_domains_provider ON sign_in_domains (provider_id);
CREATE UNIQUE INDEX uq_sign_in_domains_confirmed ON sign_in_domains (domain) WHERE confirmed_at IS NOT NULL;

CREATE TABLE upstream_identities (
    organization_id uuid NOT NULL CONSTRAINT fk_upstream_identities_organization_id REFERENCES organizations,
    issuer text NOT NULL,
    subject text NOT NULL,
    principal_id uuid NOT NULL CONSTRAINT fk_upstream_identities_principal_id REFERENCES principals,
    bound_at timestamptz NOT NULL,
    CONSTRAINT pk_upstream_identities PRIMARY KEY (organization_id, issuer, subject)
);
CREATE INDEX ix_upstream_identities_principal ON upstream_identities (principal_id);
CREATE UNIQUE INDEX uq_upstream_identities_principal ON upstream_identities (organization_id, issuer, principal_id);

CREATE TABLE passkeys (
    factor_id uuid CONSTRAINT pk_passkeys PRIMARY KEY
        CONSTRAINT fk_passkeys_factor_id REFERENCES second_factors ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_passkeys_organization_id REFERENCES organizations,
    principal_id uuid NOT NULL CONSTRAINT fk_passkeys_principal_id REFERENCES principals,
    credential_id bytea NOT NULL CONSTRAINT uq_passkeys_credential_id UNIQUE,
    public_key bytea NOT NULL,
    user_handle bytea NOT NULL,
    sign_count bigint NOT NULL,
    name text NOT NULL,
    synced boolean
);
CREATE INDEX ix_passkeys_principal ON passkeys (organization_id, principal_id);

CREATE TABLE provider_memberships (
    organization_id uuid NOT NULL CONSTRAINT fk_provider_memberships_organization_id REFERENCES organizations,
    group_id uuid NOT NULL,
    member_id uuid NOT NULL,
    provider_id uuid NOT NULL
        CONSTRAINT fk_provider_memberships_provider_id REFERENCES sign_in_providers ON DELETE CASCADE,
    CONSTRAINT pk_provider_memberships PRIMARY KEY (organization_id, group_id, member_id, provider_id),
    CONSTRAINT fk_provider_memberships_membership FOREIGN KEY (organization_id, group_id, member_id)
        REFERENCES group_members ON DELETE CASCADE
);
CREATE INDEX ix_provider_memberships_provider ON provider_memberships (provider_id, member_id);

-- OAuth clients, the consents of people, and the codes and tokens of clients; of secrets only the SHA-256.

CREATE TABLE oauth_clients (
    client_id uuid CONSTRAINT pk_oauth_clients PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_clients_organization_id REFERENCES organizations,
    name text NOT NULL,
    redirect_uris text[] NOT NULL,
    scopes text[] NOT NULL,
    status text NOT NULL,
    hint text NOT NULL,
    secret_hash bytea NOT NULL,
    requested_by uuid NOT NULL CONSTRAINT fk_oauth_clients_requested_by REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL,
    audience text DEFAULT 'api' NOT NULL,
    is_public boolean DEFAULT false NOT NULL,
    document_url text,
    document_fresh_until timestamptz,
    CONSTRAINT ck_oauth_clients_status CHECK (status IN ('pending', 'approved'))
);
CREATE INDEX ix_oauth_clients_organization ON oauth_clients (organization_id, client_id);
CREATE INDEX ix_oauth_clients_requested_by ON oauth_clients (requested_by);

CREATE TABLE oauth_consents (
    principal_id uuid NOT NULL CONSTRAINT fk_oauth_consents_principal_id REFERENCES principals,
    client_id uuid NOT NULL CONSTRAINT fk_oauth_consents_client_id REFERENCES oauth_clients ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_consents_organization_id REFERENCES organizations,
    scopes text[] NOT NULL,
    granted_at timestamptz NOT NULL,
    collection_ids uuid[],
    last_used_at timestamptz,
    CONSTRAINT pk_oauth_consents PRIMARY KEY (principal_id, client_id)
);
CREATE INDEX ix_oauth_consents_client ON oauth_consents (client_id);

CREATE TABLE oauth_token_families (
    family_id uuid CONSTRAINT pk_oauth_token_families PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_token_families_organization_id REFERENCES organizations,
    client_id uuid NOT NULL CONSTRAINT fk_oauth_token_families_client_id REFERENCES oauth_clients ON DELETE CASCADE,
    principal_id uuid NOT NULL CONSTRAINT fk_oauth_token_families_principal_id REFERENCES principals,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    address text,
    device text,
    last_used_at timestamptz,
    confirmed_at timestamptz
);
CREATE INDEX ix_oauth_token_families_client ON oauth_token_families (client_id);
CREATE INDEX ix_oauth_token_families_principal ON oauth_token_families (organization_id, principal_id, client_id);

CREATE TABLE oauth_access_tokens (
    token_id uuid CONSTRAINT pk_oauth_access_tokens PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_access_tokens_organization_id REFERENCES organizations,
    family_id uuid NOT NULL
        CONSTRAINT fk_oauth_access_tokens_family_id REFERENCES oauth_token_families ON DELETE CASCADE,
    client_id uuid NOT NULL CONSTRAINT fk_oauth_access_tokens_client_id REFERENCES oauth_clients ON DELETE CASCADE,
    principal_id uuid NOT NULL CONSTRAINT fk_oauth_access_tokens_principal_id REFERENCES principals,
    scopes text[] NOT NULL,
    secret_hash bytea NOT NULL CONSTRAINT uq_oauth_access_tokens_secret_hash UNIQUE,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX ix_oauth_access_tokens_client ON oauth_access_tokens (client_id);
CREATE INDEX ix_oauth_access_tokens_expires ON oauth_access_tokens (organization_id, expires_at);
CREATE INDEX ix_oauth_access_tokens_family ON oauth_access_tokens (family_id);
CREATE INDEX ix_oauth_access_tokens_principal ON oauth_access_tokens (principal_id);

CREATE TABLE oauth_codes (
    code_id uuid CONSTRAINT pk_oauth_codes PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_codes_organization_id REFERENCES organizations,
    client_id uuid NOT NULL CONSTRAINT fk_oauth_codes_client_id REFERENCES oauth_clients ON DELETE CASCADE,
    principal_id uuid NOT NULL CONSTRAINT fk_oauth_codes_principal_id REFERENCES principals,
    secret_hash bytea NOT NULL CONSTRAINT uq_oauth_codes_secret_hash UNIQUE,
    redirect_uri text NOT NULL,
    scopes text[] NOT NULL,
    code_challenge text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    family_id uuid CONSTRAINT fk_oauth_codes_family_id REFERENCES oauth_token_families ON DELETE CASCADE,
    address text,
    device text,
    confirmed_at timestamptz
);
CREATE INDEX ix_oauth_codes_client ON oauth_codes (client_id);
CREATE INDEX ix_oauth_codes_expires ON oauth_codes (organization_id, expires_at);
CREATE INDEX ix_oauth_codes_family ON oauth_codes (family_id);
CREATE INDEX ix_oauth_codes_principal ON oauth_codes (organization_id, principal_id, client_id);

CREATE TABLE oauth_refresh_tokens (
    token_id uuid CONSTRAINT pk_oauth_refresh_tokens PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_oauth_refresh_tokens_organization_id REFERENCES organizations,
    family_id uuid NOT NULL
        CONSTRAINT fk_oauth_refresh_tokens_family_id REFERENCES oauth_token_families ON DELETE CASCADE,
    secret_hash bytea NOT NULL CONSTRAINT uq_oauth_refresh_tokens_secret_hash UNIQUE,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX ix_oauth_refresh_tokens_family ON oauth_refresh_tokens (family_id, expires_at);

-- Agents and the collections they retrieve from.

CREATE TABLE agents (
    agent_id uuid CONSTRAINT pk_agents PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_agents_organization_id REFERENCES organizations,
    name text NOT NULL,
    description text NOT NULL,
    instructions text NOT NULL,
    model text,
    api_access_enabled boolean NOT NULL,
    created_by uuid NOT NULL CONSTRAINT fk_agents_created_by REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    deleted_at timestamptz,
    retrieval jsonb DEFAULT '{}' NOT NULL,
    starter_questions text[],
    answers_searches boolean DEFAULT false NOT NULL
);
CREATE INDEX ix_agents_created_by ON agents (created_by);
CREATE UNIQUE INDEX uq_agents_name ON agents (organization_id, name) WHERE deleted_at IS NULL;

CREATE TABLE agent_versions (
    agent_id uuid NOT NULL CONSTRAINT fk_agent_versions_agent_id REFERENCES agents ON DELETE CASCADE,
    version_no integer NOT NULL,
    organization_id uuid NOT NULL,
    settings jsonb NOT NULL,
    saved_by uuid,
    saved_at timestamptz NOT NULL,
    CONSTRAINT pk_agent_versions PRIMARY KEY (agent_id, version_no)
);
CREATE INDEX ix_agent_versions_saved_by ON agent_versions (saved_by);

CREATE TABLE agent_collections (
    agent_id uuid NOT NULL CONSTRAINT fk_agent_collections_agent_id REFERENCES agents ON DELETE CASCADE,
    collection_id uuid NOT NULL CONSTRAINT fk_agent_collections_collection_id REFERENCES collections ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_agent_collections_organization_id REFERENCES organizations,
    CONSTRAINT pk_agent_collections PRIMARY KEY (agent_id, collection_id)
);
CREATE INDEX ix_agent_collections_collection ON agent_collections (collection_id);

-- Conversations, their turns (a message and its reply), the passages of each reply, and the question log.

CREATE TABLE conversations (
    conversation_id uuid CONSTRAINT pk_conversations PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_conversations_organization_id REFERENCES organizations,
    agent_id uuid NOT NULL CONSTRAINT fk_conversations_agent_id REFERENCES agents,
    principal_id uuid NOT NULL CONSTRAINT fk_conversations_principal_id REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    origin uuid,
    title text
);
CREATE INDEX ix_conversations_agent ON conversations (agent_id);
CREATE INDEX ix_conversations_principal ON conversations (organization_id, principal_id, updated_at, conversation_id);
CREATE INDEX ix_conversations_updated ON conversations (organization_id, updated_at);

CREATE TABLE conversation_readers (
    organization_id uuid NOT NULL CONSTRAINT fk_conversation_readers_organization_id REFERENCES organizations,
    conversation_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    CONSTRAINT pk_conversation_readers PRIMARY KEY (conversation_id, principal_id)
);
CREATE INDEX ix_conversation_readers_principal
    ON conversation_readers (organization_id, principal_id, conversation_id);

CREATE TABLE questions (
    turn_id uuid CONSTRAINT pk_questions PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_questions_organization_id REFERENCES organizations,
    conversation_id uuid NOT NULL,
    agent_id uuid NOT NULL CONSTRAINT fk_questions_agent_id REFERENCES agents,
    principal_id uuid NOT NULL CONSTRAINT fk_questions_principal_id REFERENCES principals,
    at timestamptz NOT NULL,
    outcome text NOT NULL,
    feedback text,
    CONSTRAINT ck_questions_outcome CHECK (outcome IN ('RUNNING', 'ANSWERED', 'UNANSWERED', 'FAILED'))
);
CREATE INDEX ix_questions_agent ON questions (organization_id, agent_id, at, turn_id);
CREATE INDEX ix_questions_at ON questions (organization_id, at, turn_id);
CREATE INDEX ix_questions_conversation ON questions (conversation_id);
CREATE INDEX ix_questions_feedback ON questions (organization_id, feedback, at, turn_id) WHERE feedback IS NOT NULL;
CREATE INDEX ix_questions_outcome ON questions (organization_id, outcome, at, turn_id);
CREATE INDEX ix_questions_principal ON questions (organization_id, principal_id, at, turn_id);

CREATE TABLE turns (
    turn_id uuid CONSTRAINT pk_turns PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_turns_organization_id REFERENCES organizations,
    conversation_id uuid NOT NULL CONSTRAINT fk_turns_conversation_id REFERENCES conversations ON DELETE CASCADE,
    turn_no integer NOT NULL,
    credential_id uuid NOT NULL,
    acting_through_id uuid,
    request_id text,
    message text NOT NULL,
    status text DEFAULT 'RUNNING' NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    reply text,
    citations jsonb DEFAULT '[]' NOT NULL,
    warnings jsonb DEFAULT '[]' NOT NULL,
    model text,
    error_code text,
    error_message text,
    retry_after integer,
    feedback text,
    audit_log_id uuid,
    created_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    address text,
    device text,
    collection_ids uuid[],
    CONSTRAINT ck_turns_status CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED'))
);
CREATE INDEX ix_turns_running ON turns (organization_id, created_at) WHERE status = 'RUNNING';
CREATE UNIQUE INDEX uq_turns_turn_no ON turns (conversation_id, turn_no);

CREATE TABLE turn_passages (
    turn_id uuid NOT NULL CONSTRAINT fk_turn_passages_turn_id REFERENCES turns ON DELETE CASCADE,
    passage_no integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_turn_passages_organization_id REFERENCES organizations,
    document_id uuid NOT NULL,
    text text,
    rests_on boolean NOT NULL,
    place jsonb,
    CONSTRAINT pk_turn_passages PRIMARY KEY (turn_id, passage_no)
);
CREATE INDEX ix_turn_passages_document ON turn_passages (organization_id, document_id);

-- Syncs of collections with outside document databases, the documents of each, and its failures.

CREATE TABLE docstore_syncs (
    sync_id uuid CONSTRAINT pk_docstore_syncs PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_docstore_syncs_organization_id REFERENCES organizations,
    collection_id uuid NOT NULL CONSTRAINT fk_docstore_syncs_collection_id REFERENCES collections ON DELETE CASCADE,
    principal_id uuid NOT NULL CONSTRAINT fk_docstore_syncs_principal_id REFERENCES principals,
    credential_id uuid NOT NULL,
    acting_through_id uuid,
    sealed_uri bytea,
    config jsonb NOT NULL,
    status text DEFAULT 'PENDING' NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    cursor jsonb,
    listing_no integer DEFAULT 0 NOT NULL,
    read_count bigint DEFAULT 0 NOT NULL,
    created_count bigint DEFAULT 0 NOT NULL,
    updated_count bigint DEFAULT 0 NOT NULL,
    unchanged_count bigint DEFAULT 0 NOT NULL,
    deleted_count bigint DEFAULT 0 NOT NULL,
    warning_code text,
    warning_message text,
    error_code text,
    error_message text,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    started_at timestamptz,
    progress_at timestamptz,
    finished_at timestamptz,
    runs jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT ck_docstore_syncs_status CHECK (status IN ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED'))
);
CREATE INDEX ix_docstore_syncs_collection ON docstore_syncs (collection_id);
CREATE INDEX ix_docstore_syncs_organization ON docstore_syncs (organization_id, sync_id);
CREATE INDEX ix_docstore_syncs_principal ON docstore_syncs (principal_id);

CREATE TABLE docstore_documents (
    document_id uuid NOT NULL,
    sync_id uuid NOT NULL CONSTRAINT fk_docstore_documents_sync_id REFERENCES docstore_syncs ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_docstore_documents_organization_id REFERENCES organizations,
    listing_no integer DEFAULT 0 NOT NULL,
    run_at timestamptz,
    outcome text,
    removal text,
    CONSTRAINT pk_docstore_documents PRIMARY KEY (document_id, sync_id)
);
CREATE INDEX ix_docstore_documents_sync ON docstore_documents (sync_id, listing_no);

CREATE TABLE docstore_failures (
    document_id uuid NOT NULL,
    sync_id uuid NOT NULL CONSTRAINT fk_docstore_failures_sync_id REFERENCES docstore_syncs ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_docstore_failures_organization_id REFERENCES organizations,
    source_id text NOT NULL,
    external_id text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    failed_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_docstore_failures PRIMARY KEY (document_id, sync_id)
);
CREATE INDEX ix_docstore_failures_sync ON docstore_failures (sync_id, document_id);

-- Sources that runs load documents from, and the documents that could not be loaded, as the runs report them.

CREATE TABLE sources (
    source_id uuid CONSTRAINT pk_sources PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_sources_organization_id REFERENCES organizations,
    ledger text NOT NULL,
    principal_id uuid NOT NULL CONSTRAINT fk_sources_principal_id REFERENCES principals,
    latest_no integer DEFAULT 0 NOT NULL,
    shown_no integer,
    item_count integer DEFAULT 0 NOT NULL,
    ignored_count integer DEFAULT 0 NOT NULL,
    reported_at timestamptz
);
CREATE INDEX ix_sources_organization ON sources (organization_id, source_id);
CREATE UNIQUE INDEX uq_sources_ledger ON sources (organization_id, principal_id, ledger);

CREATE TABLE source_reports (
    source_id uuid NOT NULL CONSTRAINT fk_source_reports_source_id REFERENCES sources ON DELETE CASCADE,
    report_no integer NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_source_reports_organization_id REFERENCES organizations,
    source text NOT NULL,
    collection_id uuid,
    fingerprint text,
    sent_count integer DEFAULT 0 NOT NULL,
    begun_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT pk_source_reports PRIMARY KEY (source_id, report_no)
);

CREATE TABLE source_items (
    source_id uuid NOT NULL,
    report_no integer NOT NULL,
    item_id uuid NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_source_items_organization_id REFERENCES organizations,
    sort_key text NOT NULL,
    name text NOT NULL,
    place text NOT NULL,
    external_id text,
    code text NOT NULL,
    message text NOT NULL,
    fingerprint text NOT NULL,
    since timestamptz NOT NULL,
    ignored boolean NOT NULL,
    CONSTRAINT pk_source_items PRIMARY KEY (source_id, report_no, item_id),
    CONSTRAINT fk_source_items_source_id_report_no FOREIGN KEY (source_id, report_no)
        REFERENCES source_reports ON DELETE CASCADE
);
CREATE INDEX ix_source_items_sorted ON source_items (source_id, report_no, sort_key, item_id);

-- Evaluation sets: questions with judged documents, and the scores of runs over them.

CREATE TABLE evaluation_sets (
    evaluation_set_id uuid CONSTRAINT pk_evaluation_sets PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_evaluation_sets_organization_id REFERENCES organizations,
    name text NOT NULL,
    collection_id uuid,
    agent_id uuid,
    created_by uuid NOT NULL CONSTRAINT fk_evaluation_sets_created_by REFERENCES principals,
    created_at timestamptz DEFAULT now() NOT NULL
);
CREATE INDEX ix_evaluation_sets_created_by ON evaluation_sets (created_by);
CREATE INDEX ix_evaluation_sets_organization ON evaluation_sets (organization_id, evaluation_set_id);
CREATE UNIQUE INDEX uq_evaluation_sets_name ON evaluation_sets (organization_id, name);

CREATE TABLE evaluation_cases (
    case_id uuid CONSTRAINT pk_evaluation_cases PRIMARY KEY,
    evaluation_set_id uuid NOT NULL
        CONSTRAINT fk_evaluation_cases_evaluation_set_id REFERENCES evaluation_sets ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_evaluation_cases_organization_id REFERENCES organizations,
    case_no bigint GENERATED ALWAYS AS IDENTITY,
    question text NOT NULL,
    note text,
    judgements jsonb NOT NULL,
    statements jsonb DEFAULT '[]' NOT NULL,
    nothing_answers boolean DEFAULT false NOT NULL
);
CREATE INDEX ix_evaluation_cases_set ON evaluation_cases (evaluation_set_id, case_no);

CREATE TABLE evaluation_runs (
    evaluation_run_id uuid CONSTRAINT pk_evaluation_runs PRIMARY KEY,
    evaluation_set_id uuid NOT NULL
        CONSTRAINT fk_evaluation_runs_evaluation_set_id REFERENCES evaluation_sets ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_evaluation_runs_organization_id REFERENCES organizations,
    at timestamptz DEFAULT now() NOT NULL,
    principal_id uuid NOT NULL CONSTRAINT fk_evaluation_runs_principal_id REFERENCES principals,
    mode text,
    model text,
    instructions_digest text,
    note text,
    case_count integer NOT NULL,
    ndcg double precision,
    recall double precision,
    reciprocal_rank double precision,
    precision double precision,
    answered double precision,
    statements_said double precision,
    refused double precision,
    groundedness double precision,
    agent_id uuid,
    failed_count integer DEFAULT 0 NOT NULL,
    planned_count integer,
    settings jsonb
);
CREATE INDEX ix_evaluation_runs_principal ON evaluation_runs (principal_id);
CREATE INDEX ix_evaluation_runs_set ON evaluation_runs (evaluation_set_id, evaluation_run_id);

CREATE TABLE evaluation_results (
    evaluation_run_id uuid NOT NULL
        CONSTRAINT fk_evaluation_results_evaluation_run_id REFERENCES evaluation_runs ON DELETE CASCADE,
    case_id uuid NOT NULL CONSTRAINT fk_evaluation_results_case_id REFERENCES evaluation_cases ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT fk_evaluation_results_organization_id REFERENCES organizations,
    ndcg double precision,
    recall double precision,
    reciprocal_rank double precision,
    precision double precision,
    answered boolean,
    message_id uuid,
    ranks jsonb NOT NULL,
    statements_said double precision,
    refused boolean,
    groundedness double precision,
    error text,
    CONSTRAINT pk_evaluation_results PRIMARY KEY (evaluation_run_id, case_id)
);
CREATE INDEX ix_evaluation_results_case ON evaluation_results (case_id);

-- Alerts: rules, past and present alerts, messages on their way, and reports that are waited for.

CREATE TABLE alert_rules (
    alert_rule_id uuid CONSTRAINT pk_alert_rules PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_alert_rules_organization_id REFERENCES organizations,
    kinds text[] NOT NULL,
    webhook_url text,
    sealed_secret bytea,
    recipient_ids uuid[] NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    hour_began_at timestamptz,
    sent_count integer DEFAULT 0 NOT NULL,
    left_out_count integer DEFAULT 0 NOT NULL,
    names text[] DEFAULT ARRAY[]::text[] NOT NULL
);
CREATE INDEX ix_alert_rules_organization ON alert_rules (organization_id, alert_rule_id);

CREATE TABLE alerts (
    alert_id uuid CONSTRAINT pk_alerts PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_alerts_organization_id REFERENCES organizations,
    kind text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    code text NOT NULL,
    state text NOT NULL,
    quarantined_count integer,
    began_at timestamptz DEFAULT now() NOT NULL,
    told_at timestamptz DEFAULT now() NOT NULL,
    ended_at timestamptz,
    flow text,
    flow_run_id uuid,
    document_count integer,
    acknowledged_at timestamptz,
    acknowledged_by uuid,
    snoozed_until timestamptz
);
CREATE INDEX ix_alerts_organization ON alerts (organization_id, alert_id);
CREATE UNIQUE INDEX uq_alerts_open ON alerts (organization_id, kind, subject) WHERE ended_at IS NULL;

CREATE TABLE alert_deliveries (
    delivery_id uuid CONSTRAINT pk_alert_deliveries PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT fk_alert_deliveries_organization_id REFERENCES organizations,
    alert_rule_id uuid NOT NULL CONSTRAINT fk_alert_deliveries_alert_rule_id REFERENCES alert_rules ON DELETE CASCADE,
    alert_id uuid CONSTRAINT fk_alert_deliveries_alert_id REFERENCES alerts ON DELETE CASCADE,
    recipient_id uuid CONSTRAINT fk_alert_deliveries_recipient_id REFERENCES principals,
    message jsonb NOT NULL,
    status text DEFAULT 'PENDING' NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    attempts jsonb DEFAULT '[]' NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    due_at timestamptz
);
CREATE INDEX ix_alert_deliveries_alert ON alert_deliveries (alert_id);
CREATE INDEX ix_alert_deliveries_organization ON alert_deliveries (organization_id, delivery_id);
CREATE INDEX ix_alert_deliveries_recipient ON alert_deliveries (recipient_id);
CREATE INDEX ix_alert_deliveries_rule ON alert_deliveries (alert_rule_id, delivery_id);

CREATE TABLE alert_leases (
    principal_id uuid NOT NULL CONSTRAINT fk_alert_leases_principal_id REFERENCES principals,
    kind text NOT NULL,
    subject text NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT fk_alert_leases_organization_id REFERENCES organizations,
    name text NOT NULL,
    run_id uuid,
    expires_at timestamptz,
    reported_at timestamptz DEFAULT now() NOT NULL,
    flow text,
    flow_run_id uuid,
    has_begun boolean DEFAULT true NOT NULL,
    CONSTRAINT pk_alert_leases PRIMARY KEY (principal_id, kind, subject)
);
CREATE INDEX ix_alert_leases_expiry ON alert_leases (organization_id, expires_at);

-- The deployment as a whole, in one row that belongs to no organization.

CREATE TABLE deployment (
    only_row boolean DEFAULT true CONSTRAINT pk_deployment PRIMARY KEY,
    key_fingerprint bytea NOT NULL,
    store_id uuid DEFAULT gen_random_uuid() NOT NULL,
    files_listed_at timestamptz DEFAULT '-infinity' NOT NULL,
    replication_marks uuid[] DEFAULT ARRAY[gen_random_uuid()] NOT NULL,
    replication_marked_at timestamptz DEFAULT '-infinity' NOT NULL,
    replication_timeline text DEFAULT '' NOT NULL,
    CONSTRAINT ck_deployment_only_row CHECK (only_row)
);
