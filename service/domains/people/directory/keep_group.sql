INSERT INTO trashed_groups (organization_id, group_id, deleted_by, kept)
SELECT :organization_id, :group_id, :deleted_by, :kept || jsonb_build_object(
    'members', (SELECT coalesce(jsonb_agg(member_id), '[]') FROM group_members m
        WHERE organization_id = :organization_id AND group_id = :group_id AND NOT EXISTS (
            SELECT FROM provider_memberships p
            WHERE p.organization_id = :organization_id AND p.group_id = :group_id AND p.member_id = m.member_id)),
    'parents', (SELECT coalesce(jsonb_agg(group_id), '[]') FROM group_members
        WHERE organization_id = :organization_id AND member_id = :group_id),
    'roles', (SELECT coalesce(jsonb_agg(jsonb_build_array(access_class, role)), '[]') FROM class_readers
        WHERE organization_id = :organization_id AND principal_id = :group_id)
)
