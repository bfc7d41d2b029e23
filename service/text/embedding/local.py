"""The local model: onnxruntime on the service's cores, in the configured precision or the faster precision."""

import asyncio
import fcntl
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from typing import Any, Literal, Protocol, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from service.platform import traces
from service.platform.settings import usable_cores
from service.text.embedding.batching import Batcher, BatchLimits, Rows, Tokens
from service.text.embedding.models import MINILM, EmbeddingModel, WordPieces, minilm
from service.text.embedding.prepared import GRAPH_VERSION, Precision, prepare, read_mean, read_texts
from service.text.embedding.weights import ModelFiles, locate

_ERRORS_ONLY = 3


class Session:
    """A loaded graph, run in the calling thread; several threads may run it at once and share the weights."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # The session would keep a memory pattern for each input shape, and nearly every batch has another shape.
        options.enable_mem_pattern = False
        # The fused operator takes five times as long as its two parts (28 % of a batch in int8).
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )

    def run(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        """Embed a batch of token ids, padded to the longest; return a unit row for each text."""
        ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        outputs = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return cast("NDArray[np.float32]", outputs[0])


DOCUMENTS_NICENESS = 3  # with 10, documents got half as much of busy processors beside searches without a pause

_ONE_BY_ONE = BatchLimits(texts=1)
"""For int8: products are so cheap that batching gains no time, and would make vectors depend on the batch."""


class Arithmetic(Protocol):
    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        """Return a row for each text, in order. Raises Unavailable (with Retry-After) when too many texts wait."""
        ...

    async def close(self) -> None:
        """Stop; running calls fail with Unavailable."""
        ...


class Engine:
    """An onnxruntime session behind micro-batchers for queries and for documents. Each thread uses a single core: two
    made long texts no faster, and short texts slower. Document threads yield, and mostly rest if they `must_rest`."""

    def __init__(
        self,
        session: Session,
        *,
        threads: int | None = None,
        limits: BatchLimits | None = None,
        must_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        workers = threads or usable_cores()
        self._queries = Batcher(session.run, workers=workers, limits=limits)
        self._documents = Batcher(
            session.run, workers=workers, limits=limits, niceness=DOCUMENTS_NICENESS, must_rest=must_rest
        )

    @classmethod
    def open(cls, folder: Path, *, precision: Precision, files: ModelFiles | None = None, **options: Any) -> "Engine":
        """Load the graph from `folder`, building it first if missing; blocks, and raises ModelFilesError."""
        session = Session(prepare(folder, precision, files=files or locate()))
        return cls(session, limits=_ONE_BY_ONE if precision == "int8" else None, **options)

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        batcher = self._documents if in_background else self._queries
        with batcher.admit(len(texts)):
            return await batcher.embed(texts)

    async def close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in (self._queries, self._documents)))


_INLINE_CHARACTERS = 2000
"""Up to this length (a search query, say) tokenizing is faster than handing the text to a thread."""

_SLICE = 256  # texts tokenized at a time, so that a cancelled call stops soon


class LocalEmbedder:
    """A local model: an `Engine`, perhaps in another process, embeds tokens. `tokenizer` measures chunks, not input."""

    def __init__(self, model: EmbeddingModel, arithmetic: Arithmetic, files: ModelFiles) -> None:
        self.model: EmbeddingModel = model
        self.tokenizer = self._own = WordPieces(files.tokenizer, max_tokens=files.max_tokens)
        self.texts_embedded = 0
        self._arithmetic, self._prefixes = arithmetic, files.prefixes

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        precision: Precision,
        arithmetic: Arithmetic | None = None,
        files: ModelFiles | None = None,
    ) -> "LocalEmbedder":
        """Load the tokenizer, and an engine from `folder` unless `arithmetic` is given; raises ModelFilesError."""
        files = files or locate()

        def load() -> "LocalEmbedder":
            model = minilm()
            if files.name != MINILM:
                mean = read_mean(prepare(folder, precision, files=files))
                model = EmbeddingModel(files.name, len(mean), mean)
            return cls(model, arithmetic or Engine.open(folder, precision=precision, files=files), files)

        return await asyncio.to_thread(load)

    async def embed(self, texts: Sequence[str], *, in_background: bool = False) -> NDArray[np.float32]:
        """Return a unit row per text, read up to the model's limit. Raises Unavailable (Retry-After) under load."""
        if not texts:
            return np.empty((0, self.model.dimensions), np.float32)
        with traces.span("embed", {"carrel.model": self.model.name, "carrel.texts": len(texts)}):
            texts, tokens = [self._prefixes[in_background] + text for text in texts], list[Tokens]()
            if sum(map(len, texts)) <= _INLINE_CHARACTERS:
                tokens = self._own.token_ids(texts)
            while len(tokens) < len(texts):
                tokens += await asyncio.to_thread(self._own.token_ids, texts[len(tokens) : len(tokens) + _SLICE])
            rows = await self._arithmetic.embed(tokens, in_background=in_background)
        self.texts_embedded += len(texts)
        return rows

    async def close(self) -> None:
        await self._arithmetic.close()


MEASURED_SECONDS = 0.8
_TEXTS = 4
_BITS8, _BITS32 = "int8", "fp32"
# The instruction sets that decide which of the two is faster.
_INSTRUCTIONS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The precision of vectors. If measured, also the speed of 8 bits relative to 32, and the processor."""

    precision: Precision
    processor: str | None = None
    times_as_fast: float | None = None
    version: str | None = None


def choose(folder: Path, asked: Precision | Literal["auto"]) -> Chosen:
    """Return the precision; `auto` is measured once per folder, while other processes wait. Raises ModelFilesError."""
    if known := read_chosen(folder, asked):
        return known
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".measuring").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (chosen := read_chosen(folder, asked)) is None:
            chosen = _measure_speeds(folder)
            made = folder / "arithmetic.json.partial"
            made.write_text(json.dumps(asdict(chosen)))
            made.replace(folder / "arithmetic.json")
    return chosen


def read_chosen(folder: Path, asked: Precision | Literal["auto"]) -> Chosen | None:
    """Return the requested precision; for `auto` the measurement with the current processor and libraries, or None."""
    if asked != "auto":
        return Chosen(asked)
    try:
        kept = Chosen(**json.loads((folder / "arithmetic.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return kept if (kept.processor, kept.version) == (_name_processor(), _version()) else None


def _measure_speeds(folder: Path) -> Chosen:
    files, fastest = locate(), {_BITS8: float("inf"), _BITS32: float("inf")}
    graphs = {precision: prepare(folder, precision, files=files) for precision in (_BITS8, _BITS32)}
    sessions = {precision: Session(graph) for precision, graph in graphs.items()}
    texts = WordPieces(files.tokenizer).token_ids(read_texts()[:_TEXTS])
    end = time.perf_counter() + MEASURED_SECONDS
    # In turns, keeping the fastest run of each, so that other work on the machine doesn't decide.
    while fastest[_BITS32] == float("inf") or time.perf_counter() < end:
        for precision, session in sessions.items():
            began = time.perf_counter()
            for text in texts:
                session.run([text])
            fastest[precision] = min(fastest[precision], time.perf_counter() - began)
    ratio = fastest[_BITS32] / fastest[_BITS8]
    return Chosen(_BITS8 if ratio > 1 else _BITS32, _name_processor(), round(ratio, 2), _version())


def _version() -> str:
    return f"{onnxruntime.__version__} {GRAPH_VERSION}"


def _name_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = told.get("flags", told.get("features", "")).split()
    name = told.get("model name", platform.machine())
    return f"{name} ({', '.join(each for each in _INSTRUCTIONS if each in flags)})"
