"""What `bench.app` looks at: an organization of so many documents, made straight in the tables of a running service.

Loading ten thousand documents through the API takes minutes, and is what `bench.ingest` measures.
"""

import random
import time
from pathlib import Path
from typing import cast
from uuid import UUID

import numpy as np
import psycopg

from bench import synthetic
from bench.search import address
from carrel import Carrel
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres

PEOPLE = 1_000
COLLECTIONS = 20
QUESTIONS = 30
EMAIL = "wide@bench.example"
"""Who looks: the reader of more than half of the documents, made an admin."""

# As uploads a minute apart: a version and an entry of the audit log each.
_HISTORY = """
UPDATE documents SET created_at = now() - substr(external_id, 2)::int * interval '1 minute',
    updated_at = now() - substr(external_id, 2)::int * interval '1 minute';
INSERT INTO document_versions (document_id, version, organization_id, file_sha256, file_size, file_name, media_type,
    created_by, created_at)
SELECT document_id, 1, organization_id, sha256(external_id::bytea), 2048, external_id || '.txt',
    CASE WHEN substr(external_id, 2)::int % 3 = 1 THEN 'text/html' ELSE 'text/plain' END, owner_id, created_at
FROM documents;
INSERT INTO audit_entries (audit_log_id, organization_id, at, actor_id, action, target_type, target_id, details)
SELECT gen_random_uuid(), organization_id, created_at, owner_id, 'document.create', 'document', document_id::text,
    '{"version": 1}'
FROM documents;
"""
# Every twentieth document, beginning with another one.
_IN_COLLECTION = """
INSERT INTO space_documents (organization_id, document_id, space_id, version, indexed_version, chunk_count)
SELECT d.organization_id, d.document_id, c.space_id, 1, 1, 5
FROM documents d, collections c
WHERE c.collection_id = %(collection)s AND (%(number)s = 0 OR substr(d.external_id, 2)::int %% %(of)s = %(number)s)
"""
_IN_FOLDERS = """
UPDATE documents
SET external_id = 'team ' || substr(external_id, 2)::int % 30 || '/' || external_id || '.txt'
"""


def fill(client: Carrel, data_dir: Path, *, documents: int, password: str) -> dict[str, str]:
    """Make documents, people and collections; return questions, each with the external id of what it finds first."""
    began = time.perf_counter()
    people = [{"email": f"person{number}@bench.example", "name": f"Person {number:04}"} for number in range(PEOPLE)]
    client.admin.users.upsert(people)
    model = client.admin.status.get().embedding_model
    with psycopg.connect(address(EmbeddedPostgres(data_dir), SUPERUSER), autocommit=True) as connection:
        organization_id, owner_id = cast(
            "tuple[UUID, UUID]",
            connection.execute(
                "SELECT organization_id, principal_id FROM principals WHERE email = 'admin@bench.example'"
            ).fetchone(),
        )
        chunks = documents * synthetic.CHUNKS_PER_DOCUMENT
        made = synthetic.make(
            connection, organization_id=organization_id, owner_id=owner_id, chunks=chunks, model=model
        )
        connection.execute(_HISTORY)
        client.admin.users.upsert([{"email": EMAIL, "name": "Ada", "isAdmin": True, "password": password}])
        for number in range(COLLECTIONS):
            collection_id = client.document_collections.create_document_collection(
                f"Collection {number:02}"
            ).document_collection_id
            connection.execute(_IN_COLLECTION, {"collection": collection_id, "number": number, "of": COLLECTIONS})
            resource = {"resource_type": "DOCUMENT_COLLECTION", "resource_id": str(collection_id)}
            client.admin.grants.set(resource, [{"principal": {"type": "user", "email": EMAIL}, "role": "EDITOR"}])
        connection.execute(_IN_FOLDERS)
        connection.execute("VACUUM ANALYZE")
    print(f"made {documents:,} documents, {chunks:,} chunks, in {time.perf_counter() - began:.0f} s", flush=True)
    return select_answered(client, _own_words(made))


def select_answered(client: Carrel, questions: list[str]) -> dict[str, str]:
    """Return questions with the external id of the first result, a different one each, which has all words."""
    found: dict[str, str] = {}
    for question in questions:
        result = client.search.search_document_catalog(question, user_email=EMAIL).results[0]
        words = result.matched.words if result.matched else ()
        if set(words) == set(question.split()) and result.document_external_id not in found.values():
            found[question] = result.document_external_id
        if len(found) == QUESTIONS:
            break
    return found


def _own_words(made: synthetic.Organization) -> list[str]:
    """Return words of documents' own, two together, from chunks that the wide reader may read."""
    readable = np.flatnonzero(made.readable["wide"][made.of_document])
    chosen = random.Random(7).sample(readable.tolist(), 200)  # noqa: S311 - the same ones every time
    return [" ".join(made.texts[at].split()[-2:]) for at in chosen]
