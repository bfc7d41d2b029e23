-- `indexed_before`: the chunks of a document with words say themselves if they have vectors.
SELECT
    entry.document_id, s.space_id, s.model, s.dimensions, s.language,
    entry.version AS desired_version, c.version AS contents_version,
    CASE WHEN d.named_by = 'FILE' THEN v.file_name ELSE d.name END AS name,
    coalesce(nullif(c.title, ''), d.name) AS title, v.media_type,
    CASE WHEN lacking.words OR entry.version < c.version OR :is_whole THEN c.blocks END AS blocks,
    EXISTS (
        SELECT FROM space_documents other
        WHERE other.document_id = entry.document_id AND other.chunk_count > 0
          AND (other.space_id <> entry.space_id OR lacking.words)
    ) AS indexed_before,
    k.batch_id AS caller_batch, k.chunks AS caller_chunks, entry.caller_chunks AS expects_caller_chunks,
    entry.chunk_count, lacking.something AS is_pending, lacking.words AS lacks_words
FROM space_documents entry
JOIN spaces s ON s.space_id = entry.space_id
JOIN documents d ON d.document_id = entry.document_id
JOIN document_contents c ON c.document_id = entry.document_id
JOIN document_versions v ON v.document_id = c.document_id AND v.version = c.version
LEFT JOIN caller_chunks k ON k.document_id = entry.document_id AND k.space_id = entry.space_id
CROSS JOIN LATERAL (VALUES (
    entry.indexed_version IS DISTINCT FROM entry.version,
    entry.indexed_version IS DISTINCT FROM entry.version AND entry.words_version IS DISTINCT FROM entry.version
)) lacking (something, words)
WHERE entry.organization_id = :organization_id AND entry.document_id = ANY(:document_ids)
  AND entry.space_id IN (
    SELECT coalesce(asked.replaced_by_space_id, asked.space_id) FROM spaces asked
    WHERE asked.organization_id = :organization_id AND asked.space_id = ANY(:space_ids)
  )
