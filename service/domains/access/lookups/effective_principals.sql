-- `holding`: the groups with a role, and the groups nested in them. The uuid type has no max(): hence the ORDER BY.
WITH RECURSIVE holding (group_id) AS (
    SELECT r.principal_id FROM class_readers r JOIN principals p ON p.principal_id = r.principal_id
    WHERE r.organization_id = :organization_id AND r.access_class = :access_class
      AND p.organization_id = :organization_id AND p.kind = 'group'
    UNION
    SELECT m.member_id FROM holding h
    JOIN group_members m ON m.organization_id = :organization_id AND m.group_id = h.group_id AND m.member_is_group
),
walked AS MATERIALIZED (
    SELECT DISTINCT stretch.member_id FROM (
        SELECT member_id, group_id FROM group_members
        WHERE organization_id = :organization_id AND member_id > :after
        ORDER BY member_id LIMIT :stretch
    ) stretch
    JOIN principals p ON p.principal_id = stretch.member_id
    WHERE p.organization_id = :organization_id AND p.principal_id > :after AND p.active
      AND (stretch.group_id IN (SELECT group_id FROM holding)) IS TRUE
      AND (SELECT count(*) FROM holding) > :few
    ORDER BY stretch.member_id LIMIT :limit
),
begin AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM walked)
                THEN (SELECT member_id FROM walked ORDER BY member_id DESC LIMIT 1) ELSE :after END AS after
),
asked AS (
    SELECT person.member_id FROM holding h CROSS JOIN LATERAL (
        SELECT m.member_id FROM group_members m JOIN principals p ON p.principal_id = m.member_id
        WHERE m.organization_id = :organization_id AND m.group_id = h.group_id
          AND m.member_id > (SELECT after FROM begin)
          AND NOT m.member_is_group AND p.organization_id = :organization_id AND p.active
        ORDER BY m.member_id LIMIT :limit
    ) person
    WHERE (SELECT count(*) FROM walked) < :limit
),
direct AS (
    SELECT DISTINCT r.principal_id FROM class_readers r JOIN principals p ON p.principal_id = r.principal_id
    WHERE r.organization_id = :organization_id AND r.access_class = :access_class AND r.principal_id > :after
      AND p.organization_id = :organization_id AND p.active AND p.kind <> 'everyone'
    ORDER BY r.principal_id LIMIT :limit
),
everyone AS (
    SELECT p.principal_id FROM principals p
    WHERE p.organization_id = :organization_id AND p.kind = 'user' AND p.active AND p.principal_id > :after
      AND EXISTS (SELECT FROM class_readers WHERE organization_id = :organization_id
                  AND access_class = :access_class AND principal_id = :organization_id)
    ORDER BY p.principal_id LIMIT :limit
),
page AS (
    SELECT principal_id FROM direct
    UNION SELECT group_id FROM holding WHERE group_id > :after
    UNION SELECT member_id FROM walked
    UNION SELECT member_id FROM asked
    UNION SELECT principal_id FROM everyone
    ORDER BY principal_id LIMIT :limit
)
SELECT p.principal_id, p.kind, p.name, p.email
FROM page JOIN principals p ON p.principal_id = page.principal_id
WHERE p.organization_id = :organization_id
ORDER BY p.principal_id
