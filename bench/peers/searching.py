"""Search vectors below a filter of access classes with one peer, and print what it found and how long each took.

`python searching.py PEER DATA` runs in the peers' environment and imports nothing of Carrel. DATA is an .npz file:
`vectors`, the `access_class` and `document` of each, and for each reader NAME, `NAME_classes` and `NAME_questions`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

FOUND = 30
"""Chunks asked for, so that they make at least ten documents."""
BATCH = 5000
READERS = ("narrow", "typical", "wide")

Search = Callable[[Any, list[int]], list[int]]
"""From a question's vector and the readable classes, the numbers of the nearest chunks."""


def lancedb(vectors: Any, classes: Any) -> Search:
    """Return exact search below a filter that is applied first."""
    import lancedb as peer  # noqa: PLC0415 - each peer is imported where it is measured

    rows = [
        {"number": number, "vector": vector, "access_class": int(one)}
        for number, (vector, one) in enumerate(zip(vectors, classes, strict=True))
    ]
    table = peer.connect(tempfile.mkdtemp(prefix="carrel-bench-peer-")).create_table("chunks", rows)

    def search(vector: Any, readable: list[int]) -> list[int]:
        listed = ", ".join(map(str, readable))
        query = table.search(vector).metric("cosine").where(f"access_class IN ({listed})", prefilter=True)
        return [row["number"] for row in query.select(["number"]).limit(FOUND).to_list()]

    return search


def chromadb(vectors: Any, classes: Any) -> Search:
    """Return search by a graph below a filter of metadata."""
    from chromadb import PersistentClient  # noqa: PLC0415

    client = PersistentClient(tempfile.mkdtemp(prefix="carrel-bench-peer-"))
    collection = client.create_collection("chunks", configuration={"hnsw": {"space": "cosine"}})
    for start in range(0, len(vectors), BATCH):
        part = range(start, min(start + BATCH, len(vectors)))
        metadata = [{"access_class": int(classes[number])} for number in part]
        collection.add(ids=[str(number) for number in part], embeddings=vectors[start : part.stop], metadatas=metadata)

    def search(vector: Any, readable: list[int]) -> list[int]:
        found = collection.query(
            query_embeddings=[vector], n_results=FOUND, where={"access_class": {"$in": readable}}, include=[]
        )
        return [int(number) for number in found["ids"][0]]

    return search


PEERS = {each.__name__: each for each in (lancedb, chromadb)}


def main() -> None:
    """Search for every reader, and print milliseconds and documents as JSON."""
    peer, file = sys.argv[1:]
    data = np.load(file)
    search = PEERS[peer](data["vectors"].astype(np.float32), data["access_class"])
    told: dict[str, Any] = {}
    for reader in READERS:
        readable = data[f"{reader}_classes"].tolist()
        questions = data[f"{reader}_questions"]
        search(questions[0], readable)
        took, found = [], []
        for question in questions:
            began = time.perf_counter()
            numbers = search(question, readable)
            took.append((time.perf_counter() - began) * 1000)
            found.append(list(dict.fromkeys(data["document"][numbers].tolist()))[:10])
        told[reader] = {"milliseconds": took, "documents": found}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
