WITH made AS MATERIALIZED (
    SELECT gen_random_uuid() AS turn_id, gen_random_uuid() AS conversation_id, principal_id,
           %(at)s - n * %(step)s AS at
    FROM generate_series(0, %(count)s - 1) n, principals
    WHERE email = %(asker)s AND organization_id = %(organization)s
), logged AS (
    INSERT INTO questions SELECT turn_id, %(organization)s, conversation_id, %(agent)s, principal_id, at,
           %(outcome)s, %(feedback)s FROM made
), kept AS (
    INSERT INTO conversations SELECT conversation_id, %(organization)s, %(agent)s, principal_id
    FROM made WHERE %(words)s::text IS NOT NULL
)
INSERT INTO turns (turn_id, organization_id, conversation_id, turn_no, credential_id, message, status, reply,
                   created_at, feedback)
SELECT turn_id, %(organization)s, conversation_id, 1, turn_id, %(words)s, 'COMPLETED', 'x', at, %(feedback)s
FROM made WHERE %(words)s::text IS NOT NULL
