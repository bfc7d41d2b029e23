SET session_replication_role = replica;
CREATE TEMPORARY TABLE made AS SELECT gen_random_uuid() AS id FROM generate_series(1, 20000);
INSERT INTO resources SELECT (json_populate_record(r, json_build_object('object_id', id, 'resource_id', id))).*
FROM made, resources r JOIN documents ON document_id = object_id;
INSERT INTO space_documents SELECT (json_populate_record(p, json_build_object('document_id', id))).*
FROM made, space_documents p JOIN spaces USING (space_id) WHERE NOT is_catalog;
ANALYZE resources, space_documents
