-- `around`: the readers, the organization of the people among them, and all groups around these.
WITH RECURSIVE around (reader_id, principal_id) AS (
    SELECT p.principal_id, own.id FROM principals p
    CROSS JOIN LATERAL (VALUES (p.principal_id), (CASE WHEN p.kind = 'user' THEN p.organization_id END)) own (id)
    WHERE p.organization_id = :organization_id AND p.principal_id = ANY(:readers) AND own.id IS NOT NULL
    UNION
    SELECT a.reader_id, m.group_id FROM around a
    JOIN group_members m ON m.organization_id = :organization_id AND m.member_id = a.principal_id
),
held AS (
    SELECT a.reader_id, p.principal_id, p.kind, p.name, r.role, row_number() OVER (
        PARTITION BY a.reader_id
        ORDER BY p.principal_id <> a.reader_id, lower(p.name), p.principal_id
    ) AS place
    FROM around a JOIN class_readers r ON r.principal_id = a.principal_id
    JOIN principals p ON p.principal_id = a.principal_id
    WHERE r.organization_id = :organization_id AND r.access_class = :access_class
      AND p.organization_id = :organization_id
)
SELECT reader_id AS of, principal_id, kind, name, role FROM held WHERE place <= :most ORDER BY reader_id, place
