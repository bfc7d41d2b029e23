WITH ids AS (SELECT gen_random_uuid() AS id FROM generate_series(1, %(count)s)),
texts AS (
    INSERT INTO document_contents (document_id, organization_id, version, blocks)
    SELECT id, %(organization)s, 1, 'x' FROM ids
)
INSERT INTO space_documents (document_id, space_id, organization_id, version, claimed_until, is_large)
SELECT id, space_id, %(organization)s, 1, now() - interval '1 hour', %(is_large)s FROM ids, spaces
