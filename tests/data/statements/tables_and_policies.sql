SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'organization_id'),
       EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = '*'
               AND p.polqual IS NOT NULL AND p.polwithcheck IS NOT NULL)
FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
