"""Embed and store texts with one peer, and print the seconds that takes: `python loading.py PEER TEXTS MODEL`.

Runs in the peers' environment, in a process of its own, and imports nothing of Carrel. TEXTS is a JSON list; MODEL is
the folder of all-MiniLM-L6-v2. The model is loaded, and a few texts are embedded, before the clock runs.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 32
WARM_UP = 8


def sentence_transformers(model: str) -> Callable[[list[str]], Any]:
    """Return a loop over the embedding library alone: nothing is stored."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - each peer is imported where it is measured

    embedder = SentenceTransformer(model, device="cpu")
    return lambda texts: embedder.encode(texts, batch_size=BATCH)


def txtai(model: str) -> Callable[[list[str]], Any]:
    """Return an index that keeps the texts, too."""
    from txtai import Embeddings  # noqa: PLC0415

    return Embeddings(path=model, method="sentence-transformers", content=True).index


def chromadb(model: str) -> Callable[[list[str]], Any]:
    """Return a collection in a new folder."""
    import tempfile  # noqa: PLC0415

    from chromadb import PersistentClient  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    embedder = SentenceTransformer(model, device="cpu")
    client = PersistentClient(tempfile.mkdtemp(prefix="carrel-bench-peer-"))

    def load(texts: list[str]) -> None:
        collection = client.get_or_create_collection("texts")
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            keys = [str(start + number) for number in range(len(part))]
            collection.upsert(ids=keys, documents=part, embeddings=embedder.encode(part, batch_size=BATCH))

    return load


def llama_index(model: str) -> Callable[[list[str]], Any]:
    """Return an index in memory, with the embedding library behind llama-index's own interface."""
    from llama_index.core import VectorStoreIndex  # noqa: PLC0415
    from llama_index.core.embeddings import BaseEmbedding  # noqa: PLC0415
    from llama_index.core.schema import TextNode  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    embedder = SentenceTransformer(model, device="cpu")

    class Local(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embedder.encode(text).tolist()

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embedder.encode(texts, batch_size=BATCH).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    model_of_index = Local(embed_batch_size=BATCH)
    return lambda texts: VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=model_of_index)


PEERS = {each.__name__: each for each in (sentence_transformers, txtai, chromadb, llama_index)}


def main() -> None:
    """Load the texts, and print the seconds as JSON."""
    peer, file, model = sys.argv[1:]
    texts: list[str] = json.loads(Path(file).read_text())
    load = PEERS[peer](model)
    load(texts[:WARM_UP])
    began = time.perf_counter()
    load(texts)
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
