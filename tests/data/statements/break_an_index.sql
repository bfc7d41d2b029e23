UPDATE space_documents SET indexed_version = NULL, attempts = 5, error = 'out of order',
    claimed_until = now() + interval '1 hour'
WHERE document_id = (SELECT document_id FROM documents WHERE external_id = 'shelf-1/note-1.md')
