# pyright: reportUnknownMemberType=false
# py3langid has no annotations; this module gives it some.
"""Detecting the language of a text, as ISO 639-1 code."""

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Protocol

import numpy as np

ENGLISH = "en"

_LANGUAGES = (
    "af ar az be bg bn ca cs cy da de el en es et eu fa fi fr ga gl he hi hr hu hy id is it ja ka kk km ko lo lt lv"
    " mk mr ms mt my ne nl no pl pt ro ru sk sl sq sr sv sw ta th tl tr uk ur vi zh"
)
"""The detectable languages, without rare or similar languages, such as Nynorsk, that would blur detection."""

_AT_MOST = 1000  # characters examined, taking half a millisecond

_PLACES = 4  # number of chunks the examined characters come from

_LEAST_LETTERS = 20
_CERTAIN = 0.8

# Words frequent only in English. From this share on, no model is needed, whose first loading takes a second.
_ENGLISH_WORDS = frozenset({
    "and", "been", "from", "should", "that", "the", "their", "these", "they", "this", "those", "which", "with", "would",
    "you", "your",
})  # fmt: skip
_ENGLISH_SHARE = 0.04

_WORD = re.compile(r"[^\W\d_]+")

_loading = Lock()
_TABLES = ("rows", "moves", "outputs")


class _ModelFolder:
    folder: Path | None = None


class _Identifier(Protocol):
    def set_languages(self, langs: Sequence[str]) -> None: ...
    def classify(self, text: str) -> tuple[str, float]: ...


def tell_language(chunks: Sequence[str]) -> str | None:
    """Return the chunks' language, or None if uncertain; the first text not in English may take a second."""
    # Parts from the whole document, so that a preface in another language isn't decisive.
    step = max(1, len(chunks) / _PLACES)
    chosen = [chunks[int(place * step)] for place in range(min(_PLACES, len(chunks)))]
    sample = "\n".join(chunk[: _AT_MOST // len(chosen)] for chunk in chosen)
    words = _WORD.findall(sample)
    if sum(map(len, words)) < _LEAST_LETTERS:
        return None
    if sum(word.lower() in _ENGLISH_WORDS for word in words) >= _ENGLISH_SHARE * len(words):
        return ENGLISH
    with _loading:  # concurrent documents load the model once
        identifier = _load_identifier()
    language, certainty = identifier.classify(sample)
    return language if certainty >= _CERTAIN else None


def is_loaded() -> bool:
    """Return whether the model is loaded; detection then takes less than half a millisecond."""
    return _load_identifier.cache_info().currsize > 0


def keep_in(folder: Path) -> None:
    """Store the language model in a folder shared by all processes; without a folder, each process loads a copy."""
    _ModelFolder.folder = folder


@cache
def _load_identifier() -> _Identifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 - only who needs it pays for it

    # The name depends on all sources of the model.
    digest = hashlib.sha256(f"{version('py3langid')} {np.__version__} {_LANGUAGES}".encode()).hexdigest()[:8]
    folder = _ModelFolder.folder and _ModelFolder.folder / f"languages-{digest}"
    if folder is None or not folder.exists():
        whole: Any = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        whole.set_languages(_LANGUAGES.split())
        if folder is None or not _is_saved(whole, folder):
            return whole
    of = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ptc", "pc", "classes", *_TABLES)}
    rows, moves, outputs = (memoryview(of[name]) for name in _TABLES)
    identifier = LanguageIdentifier(
        of["ptc"], of["pc"], of["classes"].tolist(), moves, outputs, norm_probs=True, tk_row=()
    )
    setattr(identifier, "_rowbase", rows)  # noqa: B010 - its type is narrower: it would make a list of them
    return identifier


def _is_saved(whole: Any, folder: Path) -> bool:
    """Save a model atomically; return whether the folder has a model, possibly saved by another process."""
    tables = dict(zip(_TABLES, (whole._rowbase, whole.tk_nextmove, whole.tk_output), strict=True))  # noqa: SLF001
    of = {name: np.array(numbers, np.int32) for name, numbers in tables.items()}
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix="languages.") as made:
            for name, values in {**of, "ptc": whole.nb_ptc, "pc": whole.nb_pc, "classes": whole.nb_classes}.items():
                with (Path(made) / f"{name}.npy").open("wb") as file:
                    np.save(file, values)
                    file.flush()
                    os.fsync(file.fileno())
            Path(made).rename(folder)
            Path(made).mkdir()  # TemporaryDirectory removes it
    return folder.exists()
