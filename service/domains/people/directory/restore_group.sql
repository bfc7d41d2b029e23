WITH trashed AS (
    DELETE FROM trashed_groups WHERE organization_id = :organization_id AND group_id = :group_id RETURNING kept
), restored AS (
    INSERT INTO principals (organization_id, principal_id, kind, name, external_id)
    SELECT :organization_id, :group_id, 'group', kept ->> 'name', kept ->> 'externalId' FROM trashed
), granted AS (
    INSERT INTO class_readers (organization_id, principal_id, access_class, role)
    SELECT :organization_id, :group_id, CAST(held ->> 0 AS bigint), held ->> 1
    FROM trashed, jsonb_array_elements(kept -> 'roles') AS held
), pairs AS (
    SELECT :group_id AS group_id, CAST(id AS uuid) AS member_id, CAST(id AS uuid) AS other_id
    FROM trashed, jsonb_array_elements_text(kept -> 'members') AS id
    UNION SELECT CAST(id AS uuid), :group_id, CAST(id AS uuid)
    FROM trashed, jsonb_array_elements_text(kept -> 'parents') AS id
)
INSERT INTO group_members (organization_id, group_id, member_id, member_is_group)
SELECT :organization_id, group_id, member_id, member_id = :group_id OR kind = 'group'
FROM pairs LEFT JOIN principals ON organization_id = :organization_id AND principal_id = other_id
-- This statement doesn't see the group's new row yet, and a group may be its own member.
WHERE principal_id IS NOT NULL OR other_id = :group_id
RETURNING group_id, member_id
