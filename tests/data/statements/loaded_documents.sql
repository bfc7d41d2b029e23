SELECT d.external_id, encode(v.file_sha256, 'hex'), d.version, s.indexed_version, s.chunk_count,
       (SELECT count(*) FROM chunks_384 k WHERE k.document_id = d.document_id AND k.space_id = s.space_id)
FROM documents d
JOIN document_versions v ON v.document_id = d.document_id AND v.version = d.version
LEFT JOIN space_documents s ON s.document_id = d.document_id
    AND s.space_id = (SELECT space_id FROM spaces WHERE is_catalog AND organization_id = d.organization_id)
WHERE d.deleted_at IS NULL AND starts_with(d.external_id, %s)
