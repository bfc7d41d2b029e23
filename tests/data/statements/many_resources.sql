WITH made AS (
    INSERT INTO access_classes (organization_id, digest)
    SELECT %(organization)s, convert_to('class ' || number, 'UTF8')
    FROM generate_series(0, %(groups)s) number
    RETURNING organization_id, access_class, digest
),
readers AS (
    INSERT INTO class_readers (organization_id, principal_id, access_class, role)
    SELECT made.organization_id, principal_id, access_class, 'VIEWER'
    FROM made JOIN principals USING (organization_id)
    WHERE convert_to('class ' || substr(name, 6), 'UTF8') = digest AND kind = 'group'
)
INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)
SELECT gen_random_uuid(), organization_id, 'BOX_FILE', 'r' || number, access_class
FROM generate_series(0, %(number)s - 1) number
JOIN made ON digest = convert_to(
    'class ' || CASE WHEN number %% 5 < 3 THEN number %% %(groups)s ELSE %(groups)s END, 'UTF8')
