WITH made AS (
    INSERT INTO collections
           (collection_id, organization_id, space_id, name, distance_metric, schema_fields, created_by)
    SELECT overlay(gen_random_uuid()::text PLACING %(prefix)s FROM 1)::uuid, organization_id, space_id,
           name || number, distance_metric, schema_fields, created_by
    FROM collections, generate_series(1, %(number)s) number WHERE collection_id = %(collection_id)s
    RETURNING collection_id, organization_id
)
INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)
SELECT made.collection_id, made.organization_id, 'DOCUMENT_COLLECTION', made.collection_id::text, access_class
FROM made, resources WHERE object_id = %(collection_id)s
