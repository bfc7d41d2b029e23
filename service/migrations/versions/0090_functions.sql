-- Functions of the baseline (0090_baseline.py) that the service calls, as version 0.4.0 has them.

-- By this a transaction enters its organization. PostgreSQL puts its one expression in place of each call, which costs
-- nothing. `python -m service distribute-index` replaces it by a function that tells the servers of the index, too.
CREATE FUNCTION enter_organization(organization text) RETURNS text LANGUAGE sql VOLATILE
RETURN set_config('carrel.organization_id', organization, true);
GRANT EXECUTE ON FUNCTION enter_organization TO carrel_service;

-- Finds documents by the keys of their metadata, in the transaction's organization alone. It reads with the rights of
-- the user who migrates, as the functions of chunks do.
CREATE FUNCTION documents_with_values(of_space integer, keys text[], most integer)
RETURNS TABLE (document_id uuid, organization_id uuid, key text, custom_metadata jsonb)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
BEGIN ATOMIC
    -- No other condition stands with the keys, so that no other index can be chosen.
    SELECT found.document_id, found.organization_id, asked.key, found.custom_metadata
    FROM unnest(keys) AS asked (key) CROSS JOIN LATERAL (
        SELECT document.document_id, document.organization_id, document.custom_metadata
        FROM space_documents AS document
        WHERE metadata_keys(document.space_id, document.custom_metadata)
            && ARRAY[of_space::text || ':' || asked.key]
        LIMIT most
    ) AS found
    WHERE found.organization_id = (SELECT NULLIF(current_setting('carrel.organization_id', true), '')::uuid);
END;
REVOKE EXECUTE ON FUNCTION documents_with_values FROM PUBLIC;
GRANT EXECUTE ON FUNCTION documents_with_values TO carrel_service;
