-- The index of vectors of one length, as version 0.4.0 has it: 0090_baseline.py runs this for each number of dimensions.

-- Chunks. A vector that a release before 0.3.0 wrote is here until the background renewal moves it.
CREATE TABLE chunks_{dimensions} (
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
    CONSTRAINT pk_chunks_{dimensions} PRIMARY KEY (document_id, space_id, chunk_no),
    CONSTRAINT fk_chunks_{dimensions}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
);
-- Read with every search, so kept in the row; the text makes room, which few searches read of a row.
ALTER TABLE chunks_{dimensions} ALTER embedding SET STORAGE PLAIN, ALTER terms SET STORAGE MAIN;
CREATE INDEX ix_chunks_{dimensions}_class ON chunks_{dimensions} (organization_id, space_id, access_class);
-- New entries lie in a list of this size (KB) first, which every search reads to its end.
CREATE INDEX ix_chunks_{dimensions}_terms ON chunks_{dimensions} USING gin (term_keys(space_id, terms))
    WITH (gin_pending_list_limit = 1024);
-- An index-only scan is one only over pages that vacuum has seen: see to them often. So below.
ALTER TABLE chunks_{dimensions} SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

-- Finds chunks by their terms. Only a user who bypasses row-level security can use the index by terms, because
-- PostgreSQL evaluates nothing on hidden rows that it does not know to be leakproof, and no comparison of arrays is. So
-- the function reads with the rights of its owner, the user who migrates, and returns rows of the transaction's
-- organization alone. If that user is no superuser and has no BYPASSRLS, searches don't call it.
CREATE FUNCTION chunks_with_terms_{dimensions}(keys bigint[], query sparsevec) RETURNS TABLE (
    document_id uuid, organization_id uuid, space_id integer, access_class bigint, chunk_no integer, negative float8
)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1000
BEGIN ATOMIC
    -- No other condition stands beside the keys, so that no other index can be chosen.
    WITH found AS MATERIALIZED (
        SELECT chunks.document_id, chunks.organization_id, chunks.space_id, chunks.access_class,
            chunks.chunk_no, chunks.terms <#> query AS negative
        FROM chunks_{dimensions} AS chunks WHERE term_keys(chunks.space_id, chunks.terms) && keys
    )
    SELECT * FROM found
    WHERE found.organization_id = (SELECT NULLIF(current_setting('carrel.organization_id', true), '')::uuid);
END;
REVOKE EXECUTE ON FUNCTION chunks_with_terms_{dimensions} FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chunks_with_terms_{dimensions} TO carrel_service;

-- Vectors of chunks, each in a row of its own: a chunk can be found by its words before it has a vector.
CREATE TABLE vectors_{dimensions} (
    document_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    access_class bigint NOT NULL,
    space_id integer NOT NULL,
    chunk_no integer NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    CONSTRAINT pk_vectors_{dimensions} PRIMARY KEY (document_id, space_id, chunk_no),
    CONSTRAINT fk_vectors_{dimensions}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
);
ALTER TABLE vectors_{dimensions} ALTER embedding SET STORAGE PLAIN;
CREATE INDEX ix_vectors_{dimensions}_class ON vectors_{dimensions} (organization_id, space_id, access_class);
ALTER TABLE vectors_{dimensions} SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

-- Pages of eight chunks' codes, which searches by meaning read from their index alone.
CREATE TABLE code_pages_{dimensions} (
    document_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    access_class bigint NOT NULL,
    space_id integer NOT NULL,
    page_no integer NOT NULL,
    c1 bit({dimensions}),
    c2 bit({dimensions}),
    c3 bit({dimensions}),
    c4 bit({dimensions}),
    c5 bit({dimensions}),
    c6 bit({dimensions}),
    c7 bit({dimensions}),
    c8 bit({dimensions}),
    CONSTRAINT pk_code_pages_{dimensions} PRIMARY KEY (document_id, space_id, page_no),
    CONSTRAINT fk_code_pages_{dimensions}_space_document FOREIGN KEY (document_id, space_id) REFERENCES space_documents
);
CREATE INDEX ix_code_pages_{dimensions}_class ON code_pages_{dimensions} (organization_id, space_id, access_class)
    INCLUDE (document_id, c1, c2, c3, c4, c5, c6, c7, c8);
ALTER TABLE code_pages_{dimensions} SET (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_insert_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.05
);
