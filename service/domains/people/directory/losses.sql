WITH RECURSIVE {people},
looked_at AS (SELECT principal_id, kind FROM people ORDER BY principal_id LIMIT :limit),
before (person_id, principal_id) AS (
    SELECT principal_id, principal_id FROM looked_at
    UNION
    SELECT b.person_id, m.group_id FROM before b
    JOIN group_members m ON m.organization_id = :organization_id AND m.member_id = b.principal_id
),
after (person_id, principal_id) AS (
    SELECT principal_id, principal_id FROM looked_at
    UNION
    SELECT a.person_id, m.group_id FROM after a
    JOIN group_members m ON m.organization_id = :organization_id AND m.member_id = a.principal_id
    WHERE NOT (m.group_id = :group_id AND m.member_id = ANY(:member_ids))
),
-- Everybody's principal has the organization's id, and people alone hold roles through it.
left_over (person_id, principal_id) AS (
    SELECT person_id, principal_id FROM after
    UNION ALL
    SELECT principal_id, :organization_id FROM looked_at WHERE kind = 'user'
),
gone (person_id, principal_id) AS (
    SELECT person_id, principal_id FROM before EXCEPT SELECT person_id, principal_id FROM after
),
lost (person_id, access_class) AS (
    SELECT g.person_id, r.access_class FROM gone g
    JOIN class_readers r ON r.organization_id = :organization_id AND r.principal_id = g.principal_id
    EXCEPT
    SELECT l.person_id, r.access_class FROM left_over l
    JOIN class_readers r ON r.organization_id = :organization_id AND r.principal_id = l.principal_id
),
sizes AS (
    SELECT o.access_class, o.resource_type, count(*) AS count FROM resources o
    WHERE o.organization_id = :organization_id AND o.access_class IN (SELECT access_class FROM lost)
    GROUP BY o.access_class, o.resource_type
)
SELECT l.person_id AS principal_id, s.resource_type, sum(s.count)::bigint AS count
FROM lost l JOIN sizes s ON s.access_class = l.access_class
GROUP BY l.person_id, s.resource_type
ORDER BY l.person_id, s.resource_type
