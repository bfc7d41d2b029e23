"""A synthetic organization for `bench.permissions`: readers of every kind, made straight in the tables.

Access classes of several sizes, crowds, deep and crossing groups, and resources whose grants are many.
"""

from uuid import UUID

import psycopg

CROWD = 50_000
TEAMS = 2_000
TEAM_SIZE = 100
SHARED_CLASSES = 50
PART_CLASSES = 5_000
OWN_CLASSES = 20_000
LATE_CLASSES = 3_000
DEPTH = 30

READERS = {
    "nobody in particular": "nobody",
    "one class": "narrow",
    "thirty groups deep": "deep",
    "half of all": "wide",
    "5,000 classes": "parts",
    "20,000 classes of one": "author",
    "3,000 classes, all at the end": "late",
    "2,000 groups": "joiner",
}
"""Kinds of readers, and the local parts of their addresses."""

RESOURCES = {
    "a group of 50,000": "crowd",
    "10,000 grants to users": "users",
    "10,000 grants, 2,000 to groups": "teams",
    "everyone": "everyone",
    "a chain of 30 groups": "chain",
    "a lattice of 30 layers": "lattice",
    "a ring of groups": "ring",
}
"""Resources with many readers, and their ids in their source system."""


def make(connection: psycopg.Connection, *, organization_id: UUID, resources: int) -> None:
    """Fill an organization with about so many resources (as superuser, in autocommit mode)."""
    connection.execute("SET session_replication_role = replica")
    connection.execute("SELECT setseed(0.5), set_config('bench.organization', %s, false)", [str(organization_id)])
    for statement in (HELPERS, PEOPLE, MEMBERS, CLASSES, MANY_READERS):
        connection.execute(statement)
    connection.execute(RESOURCES_OF_CLASSES.format(wide=resources // 2, shared=resources // 10, part=resources // 5))
    connection.execute("SET session_replication_role = origin")
    connection.execute("VACUUM ANALYZE")


# Principals get the ids of their names, so that their order is as random as documents' ids are.
HELPERS = """
CREATE FUNCTION pg_temp.organization() RETURNS uuid LANGUAGE sql IMMUTABLE
    AS $$ SELECT current_setting('bench.organization')::uuid $$;
CREATE FUNCTION pg_temp.id(name text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT md5(name)::uuid $$;
"""

PEOPLE = f"""
INSERT INTO principals (principal_id, organization_id, kind, name, email)
SELECT pg_temp.id(name), pg_temp.organization(), 'user', name, name || '@bench.example'
FROM (
    SELECT 'user' || number AS name FROM generate_series(1, {CROWD}) number
    UNION ALL SELECT unnest(ARRAY{list(READERS.values())})
) people;
INSERT INTO principals (principal_id, organization_id, kind, name)
SELECT pg_temp.id(name), pg_temp.organization(), 'group', name
FROM (
    SELECT unnest(ARRAY['the crowd', 'the wide', 'the parts', 'the late']) AS name
    UNION ALL SELECT 'team ' || number FROM generate_series(1, {TEAMS}) number
    UNION ALL SELECT 'level ' || number FROM generate_series(1, {DEPTH}) number
    UNION ALL
    SELECT 'layer ' || number || ' ' || side FROM generate_series(1, {DEPTH}) number, generate_series(1, 2) side
    UNION ALL SELECT 'ring ' || number FROM generate_series(1, {DEPTH}) number
) groups;
"""  # noqa: S608 - of numbers and names from above

MEMBERS = f"""
INSERT INTO group_members (organization_id, group_id, member_id, member_is_group)
SELECT DISTINCT pg_temp.organization(), pg_temp.id(group_name), pg_temp.id(member), member_is_group
FROM (
    SELECT 'the crowd', 'user' || number, false FROM generate_series(1, {CROWD}) number
    UNION ALL
    SELECT 'team ' || team, 'user' || ceil(random() * {CROWD}), false
    FROM generate_series(1, {TEAMS}) team, generate_series(1, {TEAM_SIZE})
    UNION ALL SELECT 'team ' || team, 'joiner', false FROM generate_series(1, {TEAMS}) team
    UNION ALL SELECT 'level ' || number, 'level ' || number + 1, true FROM generate_series(1, {DEPTH} - 1) number
    UNION ALL SELECT 'level ' || number, 'user' || number, false FROM generate_series(1, {DEPTH}) number
    UNION ALL
    SELECT 'layer ' || number || ' ' || side, 'layer ' || number + 1 || ' ' || other, true
    FROM generate_series(1, {DEPTH} - 1) number, generate_series(1, 2) side, generate_series(1, 2) other
    UNION ALL
    SELECT 'layer {DEPTH} ' || side, 'user' || number, false
    FROM generate_series(1, 2) side, generate_series(1, 1000) number
    UNION ALL
    SELECT 'ring ' || number, 'ring ' || number % {DEPTH} + 1, true FROM generate_series(1, {DEPTH}) number
    UNION ALL
    SELECT 'ring ' || number, 'user' || number * 100 + one, false
    FROM generate_series(1, {DEPTH}) number, generate_series(1, 100) one
    UNION ALL
    SELECT unnest(ARRAY['level {DEPTH}', 'the wide', 'the parts', 'the late']),
           unnest(ARRAY['deep', 'wide', 'parts', 'late']), false
) AS memberships (group_name, member, member_is_group);
"""  # noqa: S608 - of numbers and names from above

# A class's digest is the name of its kind and its number, by which its resources find it.
CLASSES = f"""
CREATE TEMPORARY TABLE kinds (kind text, readers text[], classes int);
INSERT INTO kinds VALUES
    ('everyone', ARRAY['everyone'], 1),
    ('wide', ARRAY['the wide'], 1),
    ('shared', ARRAY['team #'], {SHARED_CLASSES}),
    ('part', ARRAY['the parts', 'team #'], {PART_CLASSES}),
    ('own', ARRAY['author', 'user#'], {OWN_CLASSES}),
    ('late', ARRAY['the late', 'user#'], {LATE_CLASSES}),
    ('deep', ARRAY['level 1'], 1),
    ('narrow', ARRAY['narrow'], 1);
INSERT INTO access_classes (organization_id, digest)
SELECT pg_temp.organization(), convert_to(kind || ' ' || number, 'UTF8')
FROM kinds, generate_series(1, classes) number;
INSERT INTO class_readers (organization_id, principal_id, access_class, role)
SELECT pg_temp.organization(),
       CASE reader WHEN 'everyone' THEN pg_temp.organization()
                   WHEN 'team #' THEN pg_temp.id('team ' || (number - 1) % {TEAMS} + 1)
                   ELSE pg_temp.id(replace(reader, '#', number::text)) END,
       access_class, CASE reader WHEN 'author' THEN 'OWNER' ELSE 'VIEWER' END
FROM kinds, generate_series(1, classes) number, unnest(readers) reader
JOIN access_classes ON true
WHERE digest = convert_to(kind || ' ' || number, 'UTF8');
"""  # noqa: S608 - of numbers and names from above

# The shares of the kinds; what everyone may read is little, so that narrow readers are narrow.
RESOURCES_OF_CLASSES = f"""
INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)
SELECT object_id, pg_temp.organization(), resource_type, object_id::text, access_class
FROM (
    SELECT CASE kind WHEN 'late' THEN ('ffffffff-ffff' || substr(gen_random_uuid()::text, 14))::uuid
                     ELSE gen_random_uuid() END AS object_id,
           CASE WHEN number % 1000 = 0 THEN 'AGENT' ELSE 'UPLOADED_DOCUMENT' END AS resource_type,
           kind || ' ' || number % classes + 1 AS digest
    FROM (VALUES ('everyone', 20), ('wide', {{wide}}), ('shared', {{shared}}), ('part', {{part}}),
                 ('own', {OWN_CLASSES}), ('late', {LATE_CLASSES}), ('deep', 500), ('narrow', 30)) shares (share, amount)
    JOIN kinds ON kind = share, generate_series(1, amount) number
) made
JOIN access_classes ON access_classes.digest = convert_to(made.digest, 'UTF8')
"""  # noqa: S608 - of numbers and names from above

MANY_READERS = f"""
CREATE TEMPORARY TABLE readers_of (name text, reader uuid);
INSERT INTO readers_of
SELECT 'crowd', pg_temp.id('the crowd')
UNION ALL SELECT 'users', pg_temp.id('user' || number) FROM generate_series(1, 10000) number
UNION ALL SELECT 'teams', pg_temp.id('team ' || number) FROM generate_series(1, {TEAMS}) number
UNION ALL SELECT 'teams', pg_temp.id('user' || number) FROM generate_series(1, 8000) number
UNION ALL SELECT 'everyone', pg_temp.organization()
UNION ALL SELECT 'chain', pg_temp.id('level 1')
UNION ALL SELECT 'lattice', pg_temp.id('layer 1 ' || side) FROM generate_series(1, 2) side
UNION ALL SELECT 'ring', pg_temp.id('ring 1');
INSERT INTO access_classes (organization_id, digest)
SELECT pg_temp.organization(), convert_to('of ' || name, 'UTF8') FROM (SELECT DISTINCT name FROM readers_of) names;
INSERT INTO class_readers (organization_id, principal_id, access_class, role)
SELECT pg_temp.organization(), reader, access_class, 'VIEWER'
FROM readers_of JOIN access_classes ON digest = convert_to('of ' || name, 'UTF8');
INSERT INTO resources (object_id, organization_id, resource_type, resource_id, access_class)
SELECT pg_temp.id('resource ' || name), pg_temp.organization(), 'GOOGLE_DRIVE_ITEM', name, access_class
FROM (SELECT DISTINCT name FROM readers_of) names JOIN access_classes ON digest = convert_to('of ' || name, 'UTF8');
"""  # noqa: S608 - of numbers and names from above
