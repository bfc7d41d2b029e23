"""A synthetic organization for `bench.search`: clustered vectors, words by Zipf's law, readers of three widths."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from service.index.codes import pages_of
from service.index.forms import RULES
from service.index.terms import weigh_chunks
from service.platform.identifiers import uuid7
from service.schema.indexing import TERM_DIMENSIONS, TOTAL_TERM

DIMENSIONS = 384
LATENT = 48
CHUNKS_PER_DOCUMENT = 5
WORDS_PER_CHUNK = 60
VOCABULARY = 50_000
GROUPS = 300
DOCUMENTS_PER_CLASS = 13
NARROW, TYPICAL, WIDE = 0.002, 0.05, 0.57


@dataclass
class Organization:
    """What the benchmark needs to know of what it made; `readable` says which documents each reader may read."""

    organization_id: UUID
    space_id: int
    document_ids: list[UUID]
    of_document: NDArray[np.int64]
    vectors: NDArray[np.float16]
    texts: list[str]
    readable: dict[str, NDArray[np.bool_]]


def make(
    connection: psycopg.Connection, *, organization_id: UUID, owner_id: UUID, chunks: int, model: str = "bench"
) -> Organization:
    """Fill an organization with so many chunks, straight into its tables (as superuser, in autocommit mode).

    The catalog counts as indexed with `model`.
    """
    random = np.random.default_rng(11)
    documents = chunks // CHUNKS_PER_DOCUMENT
    sizes = random.multinomial(chunks - documents, np.full(documents, 1 / documents)) + 1
    of_document = np.repeat(np.arange(documents), sizes)
    vectors = make_clustered_vectors(random, of_document, documents)
    texts = sentences(random, of_document, documents)
    classes, members = access(random, documents)
    connection.execute("SET session_replication_role = replica")
    groups = people(connection, organization_id, list(members))
    for reader, held in members.items():
        join(connection, organization_id, reader, [groups[group] for group in held])
    numbers = access_classes(connection, organization_id, classes, groups)
    space_id = connection.execute(
        "INSERT INTO spaces (organization_id, model, dimensions, is_catalog) VALUES (%s, %s, %s, true)"
        " RETURNING space_id",
        [organization_id, model, DIMENSIONS],
    ).fetchone()[0]
    of_class = random.integers(0, len(classes), documents)
    document_ids = [uuid7() for _ in range(documents)]
    organization = Organization(organization_id, space_id, document_ids, of_document, vectors, texts, {})
    write_documents(connection, organization, owner_id, [numbers[number] for number in of_class], sizes)
    write_chunks(connection, organization, [numbers[number] for number in of_class])
    for reader, held in members.items():
        allowed = np.array([not held.isdisjoint(groups_of) for groups_of in classes])
        organization.readable[reader] = allowed[of_class]
    connection.execute("SET session_replication_role = origin")
    connection.execute("VACUUM ANALYZE")
    return organization


def make_clustered_vectors(
    random: np.random.Generator, of_document: NDArray[np.int64], documents: int
) -> NDArray[np.float16]:
    """Unit vectors: chunks around their documents, documents around a thousand subjects, all near one subspace.

    Texts' embeddings have far fewer directions than dimensions; without that, all but the nearest would be equally far.
    """
    directions = random.standard_normal((LATENT, DIMENSIONS), np.float32)
    centers = random.standard_normal((1000, LATENT), np.float32)[random.integers(0, 1000, documents)]
    centers += random.standard_normal((documents, LATENT), np.float32)
    made = np.empty((len(of_document), DIMENSIONS), np.float16)
    for start in range(0, len(of_document), 50_000):
        part = centers[of_document[start : start + 50_000]]
        part = (part + 0.8 * random.standard_normal(part.shape, np.float32)) @ directions
        part += 0.2 * LATENT**0.5 * random.standard_normal(part.shape, np.float32)
        made[start : start + 50_000] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return made


def sentences(random: np.random.Generator, of_document: NDArray[np.int64], documents: int) -> list[str]:
    """Chunks' texts: half of the words by Zipf's law, half from the few that are their document's own."""
    weights = 1 / np.arange(2, VOCABULARY + 2)
    common = random.choice(VOCABULARY, (len(of_document), WORDS_PER_CHUNK // 2), p=weights / weights.sum())
    own = random.integers(0, VOCABULARY, (documents, 12))
    picked = own[of_document[:, np.newaxis], random.integers(0, 12, (len(of_document), WORDS_PER_CHUNK // 2))]
    return [" ".join(f"w{word}" for word in row) for row in np.hstack([common, picked]).tolist()]


def access(random: np.random.Generator, documents: int) -> tuple[list[frozenset[int]], dict[str, set[int]]]:
    """The groups of each access class, and the groups each reader is in; group 0 is the narrow reader's."""
    count = max(documents // DOCUMENTS_PER_CLASS, 50)
    classes = [
        frozenset(random.choice(np.arange(1, GROUPS), random.integers(1, 6), replace=False).tolist())
        for _ in range(count)
    ]
    for number in random.choice(count, max(1, round(count * NARROW)), replace=False):
        classes[number] |= {0}
    order = random.permutation(np.arange(1, GROUPS)).tolist()
    held: dict[str, set[int]] = {"narrow": {0}}
    for reader, share in (("typical", TYPICAL), ("wide", WIDE)):
        held[reader] = set()
        for group in order:
            if np.mean([not held[reader].isdisjoint(groups) for groups in classes]) >= share:
                break
            held[reader].add(group)
    return classes, held


def people(connection: psycopg.Connection, organization_id: UUID, readers: list[str]) -> list[UUID]:
    """Make the groups, and a user for each reader; membership follows in `join`."""
    groups = [uuid7() for _ in range(GROUPS)]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO principals (principal_id, organization_id, kind, name, email) VALUES (%s, %s, %s, %s, %s)",
            [(group, organization_id, "group", f"Group {number}", None) for number, group in enumerate(groups)]
            + [(uuid7(), organization_id, "user", reader, f"{reader}@bench.example") for reader in readers],
        )
    return groups


def join(connection: psycopg.Connection, organization_id: UUID, reader: str, groups: list[UUID]) -> None:
    """Put a reader into groups."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO group_members (organization_id, group_id, member_id, member_is_group)"
            " SELECT %s, %s, principal_id, false FROM principals WHERE email = %s",
            [(organization_id, group, f"{reader}@bench.example") for group in groups],
        )


def access_classes(
    connection: psycopg.Connection, organization_id: UUID, classes: list[frozenset[int]], groups: list[UUID]
) -> list[int]:
    """Make the access classes and who reads them; their numbers in the database."""
    numbers = [
        connection.execute(
            "INSERT INTO access_classes (organization_id, digest) VALUES (%s, %s) RETURNING access_class",
            [organization_id, sha256(str(number).encode()).digest()],
        ).fetchone()[0]
        for number in range(len(classes))
    ]
    with connection.cursor() as cursor, cursor.copy("COPY class_readers FROM STDIN") as copy:
        for number, held in zip(numbers, classes, strict=True):
            for group in held:
                copy.write_row((organization_id, groups[group], number, "VIEWER"))
    return numbers


def write_documents(
    connection: psycopg.Connection, made: Organization, owner_id: UUID, classes: list[int], sizes: NDArray[np.int64]
) -> None:
    """Write the documents, their resources, and their rows in the catalog."""
    rows = enumerate(made.document_ids)
    tables: dict[str, list[tuple[object, ...]]] = {
        "documents (organization_id, document_id, external_id, name, owner_id, version, custom_metadata)": [],
        "resources (organization_id, object_id, resource_type, resource_id, access_class)": [],
        "space_documents (organization_id, document_id, space_id, version, indexed_version, chunk_count, forms)": [],
    }
    for number, key in rows:
        for table, values in zip(
            tables.values(),
            (
                (f"d{number}", title_of(number), owner_id, 1, f'{{"number": "{number % 1000}"}}'),
                ("UPLOADED_DOCUMENT", str(key), classes[number]),
                (made.space_id, 1, 1, int(sizes[number]), RULES),
            ),
            strict=True,
        ):
            table.append((made.organization_id, key, *values))
    for table, values in tables.items():
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)


def title_of(number: int) -> str:
    """Two words."""
    return f"w{number % VOCABULARY} w{number * 7 % VOCABULARY}"


def write_chunks(connection: psycopg.Connection, made: Organization, classes: list[int]) -> None:
    """Write chunks and code pages in COPY's binary format, and the terms' statistics."""
    frequencies: dict[int, int] = {TOTAL_TERM: len(made.texts)}
    bits = np.packbits(made.vectors > 0, axis=1)
    starts = np.searchsorted(made.of_document, np.arange(len(made.document_ids) + 1))
    chunk_columns = "document_id, chunk_id, organization_id, access_class, space_id, chunk_no, terms,"
    with (
        connection.cursor() as chunk_cursor,
        chunk_cursor.copy(f"COPY chunks_384 ({chunk_columns} text_hash, text) FROM STDIN BINARY") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for number in range(len(made.document_ids)):
            copy.write(b"".join(_chunk_rows(made, number, classes[number], starts, frequencies)))
        copy.write(b"\xff\xff")
    vector_columns = "document_id, organization_id, access_class, space_id, chunk_no, embedding"
    with (
        connection.cursor() as vector_cursor,
        vector_cursor.copy(f"COPY vectors_384 ({vector_columns}) FROM STDIN BINARY") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for number, document_id in enumerate(made.document_ids):
            head = (document_id.bytes, made.organization_id.bytes, struct.pack("!q", classes[number]))
            for chunk_no, at in enumerate(range(starts[number], starts[number + 1])):
                dense = struct.pack("!hh", DIMENSIONS, 0) + made.vectors[at].astype(">f2").tobytes()
                copy.write(_row(*head, struct.pack("!i", made.space_id), struct.pack("!i", chunk_no), dense))
        copy.write(b"\xff\xff")
    codes = ", ".join(f"c{slot}" for slot in range(1, 9))
    page_columns = f"document_id, organization_id, access_class, space_id, page_no, {codes}"
    with (
        connection.cursor() as page_cursor,
        page_cursor.copy(f"COPY code_pages_384 ({page_columns}) FROM STDIN BINARY") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for number, document_id in enumerate(made.document_ids):
            own = [struct.pack("!i", DIMENSIONS) + row.tobytes() for row in bits[starts[number] : starts[number + 1]]]
            for page_no, page in enumerate(pages_of(own)):  # type: ignore[arg-type]
                head = (document_id.bytes, made.organization_id.bytes, struct.pack("!q", classes[number]))
                copy.write(_row(*head, struct.pack("!i", made.space_id), struct.pack("!i", page_no), *page))
        copy.write(b"\xff\xff")
    with connection.cursor() as cursor, cursor.copy("COPY term_statistics FROM STDIN") as copy:
        for term, frequency in frequencies.items():
            copy.write_row((made.space_id, term, made.organization_id, frequency))


def _chunk_rows(
    made: Organization, number: int, access_class: int, starts: NDArray[np.int64], frequencies: dict[int, int]
) -> Iterator[bytes]:
    own = range(starts[number], starts[number + 1])
    title = title_of(number)
    for chunk_no, (at, terms) in enumerate(
        zip(own, weigh_chunks([made.texts[at] for at in own], title=title, stemming="english"), strict=True)
    ):
        for term in terms:
            frequencies[term] = frequencies.get(term, 0) + 1
        ordered = sorted(terms)
        sparse = struct.pack(
            f"!iii{len(ordered)}i{len(ordered)}f",
            TERM_DIMENSIONS, len(ordered), 0, *(term - 1 for term in ordered), *(terms[term] for term in ordered),
        )  # fmt: skip
        text = made.texts[at].encode()
        yield _row(
            made.document_ids[number].bytes, uuid7().bytes, made.organization_id.bytes, struct.pack("!q", access_class),
            struct.pack("!i", made.space_id), struct.pack("!i", chunk_no), sparse, sha256(text).digest(), text,
        )  # fmt: skip


def _row(*fields: bytes | None) -> bytes:
    parts = [struct.pack("!h", len(fields))]
    parts += [b"\xff\xff\xff\xff" if field is None else struct.pack("!i", len(field)) + field for field in fields]
    return b"".join(parts)
