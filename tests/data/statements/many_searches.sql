WITH made AS (
    INSERT INTO searches (search_id, organization_id, at, principal_id, mode, result_count, has_words, feedback)
    SELECT gen_random_uuid(), organization_id, %(at)s - n * %(step)s, principal_id, 'HYBRID', %(result_count)s,
           %(has_words)s, %(feedback)s
    FROM generate_series(1, %(count)s) n, principals WHERE organization_id = %(organization)s AND is_admin
    RETURNING search_id, organization_id
)
INSERT INTO free_texts SELECT search_id, organization_id, 'words' FROM made
