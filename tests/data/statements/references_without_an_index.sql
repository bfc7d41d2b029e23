SELECT conrelid::regclass || '.' || string_agg(attname, ', ' ORDER BY attname)
FROM pg_constraint c JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY(conkey)
WHERE contype = 'f' AND NOT confrelid::regclass::text = ANY(%s) AND NOT EXISTS (
    SELECT FROM pg_index CROSS JOIN LATERAL (
        SELECT count(*)::int AS first FROM pg_attribute
        WHERE attrelid = conrelid AND attname = 'organization_id' AND attnum = indkey[0] AND attnum <> conkey[1]
    ) organization
    WHERE indrelid = conrelid AND conkey <@ (indkey::int2[])[first:first + cardinality(conkey) - 1]
    AND (indpred IS NULL OR EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey)
        AND pg_get_expr(indpred, indrelid) = '(' || attname || ' IS NOT NULL)'
    ))
)
GROUP BY c.oid, conrelid
