"""The schema of version 0.3.0: tables, the job queue, the service's role, and row-level security. It stands for the 79
migrations that led there. A database at an older schema goes through version 0.3.0 first."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from service.migrations.job_queue import allow_service, apply_files, protect_jobs, run_script
from service.migrations.row_security import CURRENT_ORGANIZATION, create_role, protect, show_before_authentication
from service.platform.database import ORGANIZATION_SETTING, SERVICE_ROLE

revision, down_revision, usable_from = "0079", None, "0057"

DIMENSIONS = (384, 768, 1024, 1536)
SLOTS = tuple(f"c{number}" for number in range(1, 9))
# The rows that a request is looked up in before it has an organization, by the hash of its secret or by its client.
FOUND_BEFORE_AUTHENTICATION = (
    "api_keys",
    "browser_sessions",
    "invitations",
    "oauth_access_tokens",
    "oauth_clients",
    "oauth_codes",
    "oauth_refresh_tokens",
    "organizations",
    "passkeys",
    "pending_sign_ins",
    "scim_tokens",
    "service_account_tokens",
    "sign_in_domains",
)


def upgrade() -> None:
    """Make the schema in an empty database."""
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    run_script(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    op.add_column("alembic_version", sa.Column("usable_from", sa.Text()))
    create_role()
    for dimensions in DIMENSIONS:
        _create_chunks(dimensions)
        _create_vectors(dimensions)
        _create_code_pages(dimensions)
    _protect_tables()
    _create_entrance()
    _create_metadata_look_up()
    # The queue as procrastinate 3.10 has it.
    apply_files(through="03.04.00_50")
    allow_service()
    protect_jobs()


def _protect_tables() -> None:
    of_organizations = "SELECT table_name FROM information_schema.columns WHERE column_name = 'organization_id'"
    tables = set(op.get_bind().exec_driver_sql(f"{of_organizations} AND table_schema = current_schema()").scalars())
    for table in sorted(tables - {"audit_entries"}):
        protect(table)
    # The audit log only grows: not even the service can change or delete an entry.
    protect("audit_entries", privileges=("SELECT", "INSERT"))
    for table in FOUND_BEFORE_AUTHENTICATION:
        show_before_authentication(table)
    written = "files_listed_at, replication_marks, replication_marked_at, replication_timeline"
    op.execute(f"GRANT SELECT, INSERT, UPDATE ({written}) ON deployment TO {SERVICE_ROLE}")
    op.execute(f"GRANT SELECT, INSERT, DELETE ON unused_files TO {SERVICE_ROLE}")


def _create_chunks(dimensions: int) -> None:
    """Make the table of chunks whose vectors have one length, and the function that finds them by their terms.

    A vector is here only until the background renewal moves it: a release before 0.3.0 has written it.

    Only a user who bypasses row-level security can use the index by terms, because PostgreSQL evaluates nothing on
    hidden rows that it does not know to be leakproof, and no comparison of arrays is. So the function reads with the
    rights of its owner, the user who migrates, and returns rows of the transaction's organization alone. If that user
    is no superuser and has no BYPASSRLS, searches don't call it."""
    chunks, function = f"chunks_{dimensions}", f"chunks_with_terms_{dimensions}"
    op.execute(
        f"""
        CREATE TABLE {chunks} (
            document_id uuid NOT NULL,
            chunk_id uuid NOT NULL,
            organization_id uuid NOT NULL,
            access_class bigint NOT NULL,
            space_id integer NOT NULL,
            chunk_no integer NOT NULL,
            terms sparsevec(536870912) NOT NULL,
            embedding halfvec({dimensions}),
            text_hash bytea NOT NULL,
            text text NOT NULL,
            place jsonb,
            CONSTRAINT pk_{chunks} PRIMARY KEY (document_id, space_id, chunk_no),
            CONSTRAINT fk_{chunks}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
        )
        """
    )
    # Read with every search, so kept in the row; the text makes room, which few searches read of a row.
    op.execute(f"ALTER TABLE {chunks} ALTER embedding SET STORAGE PLAIN, ALTER terms SET STORAGE MAIN")
    op.execute(f"CREATE INDEX ix_{chunks}_class ON {chunks} (organization_id, space_id, access_class)")
    # New entries lie in a list of this size (KB) first, which every search reads to its end.
    op.execute(
        f"CREATE INDEX ix_{chunks}_terms ON {chunks} USING gin (term_keys(space_id, terms))"
        " WITH (gin_pending_list_limit = 1024)"
    )
    _finish_index(chunks, often=0.02)
    op.execute(
        f"""
        CREATE FUNCTION {function}(keys bigint[], query sparsevec) RETURNS TABLE (
            document_id uuid, organization_id uuid, space_id integer, access_class bigint, chunk_no integer,
            negative float8
        )
        LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
        BEGIN ATOMIC
            -- No other condition stands beside the keys, so that no other index can be chosen.
            WITH found AS MATERIALIZED (
                SELECT chunks.document_id, chunks.organization_id, chunks.space_id, chunks.access_class,
                    chunks.chunk_no, chunks.terms <#> query AS negative
                FROM {chunks} AS chunks WHERE term_keys(chunks.space_id, chunks.terms) && keys
            )
            SELECT * FROM found WHERE found.organization_id = {CURRENT_ORGANIZATION};
        END
        """  # noqa: S608 - names of ours
    )
    _allow_service_alone(function)


def _create_vectors(dimensions: int) -> None:
    vectors = f"vectors_{dimensions}"
    op.execute(
        f"""
        CREATE TABLE {vectors} (
            document_id uuid NOT NULL,
            organization_id uuid NOT NULL,
            access_class bigint NOT NULL,
            space_id integer NOT NULL,
            chunk_no integer NOT NULL,
            embedding halfvec({dimensions}) NOT NULL,
            CONSTRAINT pk_{vectors} PRIMARY KEY (document_id, space_id, chunk_no),
            CONSTRAINT fk_{vectors}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
        )
        """
    )
    op.execute(f"ALTER TABLE {vectors} ALTER embedding SET STORAGE PLAIN")
    op.execute(f"CREATE INDEX ix_{vectors}_class ON {vectors} (organization_id, space_id, access_class)")
    _finish_index(vectors, often=0.02)


def _create_code_pages(dimensions: int) -> None:
    """Make the table of pages of eight chunks' codes, which searches by meaning read from its index alone."""
    pages = f"code_pages_{dimensions}"
    op.execute(
        f"""
        CREATE TABLE {pages} (
            document_id uuid NOT NULL,
            organization_id uuid NOT NULL,
            access_class bigint NOT NULL,
            space_id integer NOT NULL,
            page_no integer NOT NULL,
            {", ".join(f"{slot} bit({dimensions})" for slot in SLOTS)},
            CONSTRAINT pk_{pages} PRIMARY KEY (document_id, space_id, page_no),
            CONSTRAINT fk_{pages}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
        )
        """
    )
    op.execute(
        f"CREATE INDEX ix_{pages}_class ON {pages} (organization_id, space_id, access_class)"
        f" INCLUDE (document_id, {', '.join(SLOTS)})"
    )
    _finish_index(pages, often=0.01)


def _finish_index(table: str, *, often: float) -> None:
    # An index-only scan is one only over pages that vacuum has seen: see to them often.
    op.execute(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = {often},"
        f" autovacuum_vacuum_insert_scale_factor = {often}, autovacuum_analyze_scale_factor = 0.05)"
    )


def _create_entrance() -> None:
    """Make the function by which a transaction enters its organization.

    PostgreSQL puts its one expression in place of each call, which costs nothing. `python -m service distribute-index`
    replaces it by a function that tells the servers of the index, too."""
    op.execute(
        f"""
        CREATE FUNCTION enter_organization(organization text) RETURNS text LANGUAGE sql VOLATILE
        RETURN set_config('{ORGANIZATION_SETTING}', organization, true)
        """
    )
    op.execute(f"GRANT EXECUTE ON FUNCTION enter_organization TO {SERVICE_ROLE}")


def _create_metadata_look_up() -> None:
    """Make the function that finds documents by the keys of their metadata, in the transaction's organization alone. It
    reads with the rights of the user who migrates, as the functions of chunks do."""
    op.execute(
        f"""
        CREATE FUNCTION documents_with_values(of_space integer, keys text[], most integer)
        RETURNS TABLE (document_id uuid, organization_id uuid, key text, custom_metadata jsonb)
        LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
        BEGIN ATOMIC
            -- No other condition stands with the keys, so that no other index can be chosen.
            SELECT found.document_id, found.organization_id, asked.key, found.custom_metadata
            FROM unnest(keys) AS asked (key) CROSS JOIN LATERAL (
                SELECT document.document_id, document.organization_id, document.custom_metadata
                FROM space_documents AS document
                WHERE metadata_keys(document.space_id, document.custom_metadata)
                    && ARRAY[of_space::text || ':' || asked.key]
                LIMIT most
            ) AS found
            WHERE found.organization_id = {CURRENT_ORGANIZATION};
        END
        """  # noqa: S608 - names of ours
    )
    _allow_service_alone("documents_with_values")


def _allow_service_alone(function: str) -> None:
    op.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {SERVICE_ROLE}")
