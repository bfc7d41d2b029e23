SELECT count(*) FILTER (WHERE text ~ 'ferry'), count(*) FILTER (WHERE v.embedding::text = %s),
    count(DISTINCT text ~ 'ferry')
FROM chunks_384 LEFT JOIN vectors_384 v USING (document_id, space_id, chunk_no)
