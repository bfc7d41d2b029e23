SELECT d.external_id, d.version, s.version, s.indexed_version, s.chunk_count,
       (SELECT count(*) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id),
       (SELECT min(k.text) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id)
FROM documents d
JOIN space_documents s ON s.document_id = d.document_id
JOIN collections c ON c.space_id = s.space_id
WHERE c.name = %s AND d.deleted_at IS NULL
