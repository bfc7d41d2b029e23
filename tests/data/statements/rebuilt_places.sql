SELECT d.external_id, p.version = d.version AND p.indexed_version = p.version, p.chunk_count,
       (SELECT count(*) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = p.space_id)
FROM space_documents p
JOIN documents d ON d.document_id = p.document_id
JOIN collections c ON c.space_id = p.space_id
WHERE c.collection_id = %s AND d.deleted_at IS NULL
