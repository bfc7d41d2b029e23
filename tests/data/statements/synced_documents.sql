SELECT d.external_id, encode(v.file_sha256, 'hex'), d.version, s.indexed_version = d.version,
       s.chunk_count > 0 AND s.chunk_count =
           (SELECT count(*) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id)
FROM documents d
JOIN document_versions v ON v.document_id = d.document_id AND v.version = d.version
JOIN space_documents s ON s.document_id = d.document_id
JOIN collections c ON c.space_id = s.space_id
WHERE d.deleted_at IS NULL AND c.collection_id = %s
