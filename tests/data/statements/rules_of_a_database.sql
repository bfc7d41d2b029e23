SELECT 'policy', tablename, policyname, roles::text, cmd, qual, with_check FROM pg_policies
UNION ALL SELECT 'table', relname, relrowsecurity::text, relforcerowsecurity::text,
    (SELECT string_agg(has_table_privilege('carrel_service', c.oid, right_)::text, ' ' ORDER BY right_)
     FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES']) right_),
    pg_get_userbyid(relowner), reloptions::text
FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
UNION ALL SELECT 'index', indexname, indexdef, '', '', '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', '', '' FROM pg_constraint
WHERE connamespace = 'public'::regnamespace
ORDER BY 1, 2, 3
