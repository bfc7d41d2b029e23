"""A stand-in OpenAI-compatible embeddings endpoint on loopback: real HTTP, meaningless vectors, at no cost."""

import hashlib
import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from tests.harness.http_servers import Answer, serving_json

DIMENSIONS = 384
SLOW = "sha512-"
_LONGEST_HOLD = 300.0
_VECTORS = [
    json.dumps([round(((index * 37 + place * 11) % 101) / 101 - 0.5, 3) for place in range(DIMENSIONS)])
    for index in range(64)
]


def _vector(text: str) -> str:
    return _VECTORS[hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % len(_VECTORS)]


@contextmanager
def embeddings_server(
    released: threading.Event | None = None, *, seconds_a_text: float = 0.0
) -> Generator[dict[str, str]]:
    """Serve during the block; yield settings for the service. Texts with `SLOW` wait until `released`."""

    def answer(_path: str, _headers: Mapping[str, str], body: dict) -> Answer:
        texts = body["input"]
        if released is not None and any(SLOW in text for text in texts):
            released.wait(_LONGEST_HOLD)
        time.sleep(seconds_a_text * len(texts))
        rows = [f'{{"index":{index},"embedding":{_vector(text)}}}' for index, text in enumerate(texts)]
        return 200, f'{{"object":"list","data":[{",".join(rows)}],"usage":{{"total_tokens":1}}}}'.encode()

    with serving_json(answer) as url:
        yield {
            "CARREL_EMBEDDINGS_URL": url,
            "CARREL_EMBEDDINGS_MODEL": "stand-in",
            "CARREL_EMBEDDINGS_DIMENSIONS": str(DIMENSIONS),
        }
