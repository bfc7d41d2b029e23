"""An index of chunks by their terms, and the function that finds the chunks in it."""

from alembic import op

from service.migrations.row_security import CURRENT_ORGANIZATION
from service.platform.database import SERVICE_ROLE

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

DIMENSIONS = (384, 768, 1024, 1536)


def upgrade() -> None:
    """Make the index, which takes about a minute for a million chunks, and the functions.

    The index is on an expression, so nobody has to write more than before. Only who bypasses row-level security can use
    it, because PostgreSQL evaluates nothing on hidden rows that it does not know to be leakproof, and no comparison of
    arrays is. So a function reads it with the rights of its owner, the user who migrates, and returns rows of the
    transaction's organization alone. Where that user is no superuser and has no BYPASSRLS, searches don't call it.
    """
    op.execute(
        """
        CREATE FUNCTION term_keys(space_id integer, terms sparsevec) RETURNS bigint[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
        RETURN (
            SELECT array_agg(
                (space_id::bigint << 31) + ((split_part(entry, ':', 1)::bigint - 1) << 2)
                + width_bucket(split_part(entry, ':', 2)::float8, ARRAY[0.5, 0.6, 0.7]::float8[])
            )
            FROM string_to_table(split_part(ltrim(terms::text, '{'), '}', 1), ',') AS entry
            WHERE entry <> ''
        )
        """
    )
    for dimensions in DIMENSIONS:
        chunks, function = f"chunks_{dimensions}", f"chunks_with_terms_{dimensions}"
        # New entries lie in a list of this size (KB) first, which every search reads to its end.
        op.execute(
            f"CREATE INDEX ix_{chunks}_terms ON {chunks} USING gin (term_keys(space_id, terms))"
            " WITH (gin_pending_list_limit = 1024)"
        )
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
        op.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {SERVICE_ROLE}")
