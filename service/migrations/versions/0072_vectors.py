"""The vectors of chunks have tables of their own, so that a chunk can be found by its words before it has a vector."""

from alembic import op

from service.migrations.row_security import protect

revision, down_revision, usable_from = "0072", "0071", None

DIMENSIONS = (384, 768, 1024, 1536)


def upgrade() -> None:
    """Make a table for each number of dimensions. Nothing is moved here: the service does that beside its work."""
    for dimensions in DIMENSIONS:
        _create_vectors(f"vectors_{dimensions}", dimensions)


def _create_vectors(vectors: str, dimensions: int) -> None:
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
    op.execute(
        f"ALTER TABLE {vectors} SET (autovacuum_vacuum_scale_factor = 0.02,"
        " autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05)"
    )
    protect(vectors)
