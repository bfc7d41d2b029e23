"""The local model's arithmetic: the configured precision, or the faster precision on this processor."""

import fcntl
import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import onnxruntime

from service.text.embedding.prepared import GRAPH_VERSION, Precision, prepare, read_texts
from service.text.embedding.session import Session
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import locate

MEASURED_SECONDS = 0.8
_TEXTS = 4
_BITS8, _BITS32 = "int8", "fp32"
# The instructions that the speed of the two depends on.
_INSTRUCTIONS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The precision that vectors are computed in. If measured: how many times as fast 8 bits are as 32, and where."""

    precision: Precision
    processor: str | None = None
    times_as_fast: float | None = None
    version: str | None = None


def choose(folder: Path, asked: Precision | Literal["auto"]) -> Chosen:
    """Return what was asked for; for `auto` what is kept in the folder, or else measure and keep it. Processes that
    come meanwhile wait. Raises ModelFilesError."""
    if known := read_chosen(folder, asked):
        return known
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".measuring").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (chosen := read_chosen(folder, asked)) is None:
            chosen = _measure(folder)
            made = folder / "arithmetic.json.partial"
            made.write_text(json.dumps(asdict(chosen)))
            made.replace(folder / "arithmetic.json")
    return chosen


def read_chosen(folder: Path, asked: Precision | Literal["auto"]) -> Chosen | None:
    """Return what was asked for; for `auto` what was measured with this processor and these libraries, if anything."""
    if asked != "auto":
        return Chosen(asked)
    try:
        kept = Chosen(**json.loads((folder / "arithmetic.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return kept if (kept.processor, kept.version) == (_name_processor(), _version()) else None


def _measure(folder: Path) -> Chosen:
    files, fastest = locate(), {_BITS8: float("inf"), _BITS32: float("inf")}
    graphs = {precision: prepare(folder, precision, files=files) for precision in (_BITS8, _BITS32)}
    sessions = {precision: Session(graph) for precision, graph in graphs.items()}
    texts = WordPieces(files.tokenizer).token_ids(read_texts()[:_TEXTS])
    end = time.perf_counter() + MEASURED_SECONDS
    # In turns, and the fastest of each, so that other work on the machine decides nothing.
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
