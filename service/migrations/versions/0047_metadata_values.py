"""The function that finds documents by the values in their metadata, for conditions drawn from questions."""

from alembic import op

from service.migrations.row_security import CURRENT_ORGANIZATION
from service.platform.database import SERVICE_ROLE

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None
usable_from = None


def upgrade() -> None:
    """Make the functions; the index that the last one reads is the next migration's."""
    _make_key()
    _make_keys()
    _make_look_up()


def _make_key() -> None:
    """Make `metadata_key`: the spelling that values are compared in, without accents, capitals and punctuation."""
    op.execute(
        r"""
        CREATE FUNCTION metadata_key(value text) RETURNS text
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN btrim(regexp_replace(
            translate(
                regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]+' COLLATE "C", '', 'g'),
                'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'
            ),
            '[\x01-/:-@\[-`{-\x7f]+' COLLATE "C", ' ', 'g'
        ))
        """
    )


def _make_keys() -> None:
    """Make `metadata_keys`: those of a document's short values, but for numbers, times and truth values."""
    op.execute(
        r"""
        CREATE FUNCTION metadata_keys(space_id integer, metadata jsonb) RETURNS text[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 1000
        RETURN (
            SELECT array_agg(DISTINCT space_id::text || ':' || metadata_key(entry.value))
            FROM jsonb_each_text(metadata) AS entry
            WHERE length(entry.value) <= 100 AND entry.value NOT IN ('true', 'false')
                AND metadata_key(entry.value) ~ '[^0-9 ]' AND entry.value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}'
        )
        """
    )


def _make_look_up() -> None:
    """Make the function that finds documents by keys, in the transaction's organization alone.

    As with `chunks_with_terms_…` (0021), it reads with the rights of the user who migrates.
    """
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
    op.execute("REVOKE EXECUTE ON FUNCTION documents_with_values FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION documents_with_values TO {SERVICE_ROLE}")
