"""Texts to vectors, by the configured models: `Embedders.get(name)`, then `await embedder.embed(texts)`."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from service.platform.errors import BadRequest
from service.platform.settings import VECTOR_DIMENSIONS, Settings
from service.text.embedding.engine import Arithmetic
from service.text.embedding.local import LocalEmbedder
from service.text.embedding.models import MINILM, Embedder, EmbeddingModel
from service.text.embedding.remote import RemoteEmbedder
from service.text.embedding.tokenizer import WordPieces

__all__ = ["MINILM", "Arithmetic", "Embedder", "Embedders", "EmbeddingModel", "WordPieces", "open_embedders"]

MODEL_FOLDER = "model"
"""In the data folder; holds nothing that couldn't be built again."""


class Embedders:
    """The embedders of a service by their models' names; the first is the default."""

    def __init__(self, *embedders: Embedder) -> None:
        self._embedders: Mapping[str, Embedder] = MappingProxyType({each.model.name: each for each in embedders})
        self.default = embedders[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, the default's first."""
        return tuple(self._embedders)

    @property
    def texts_embedded(self) -> int:
        """The number of texts that all embedders have embedded since the start."""
        return sum(embedder.texts_embedded for embedder in self._embedders.values())

    def get(self, name: str | None = None) -> Embedder:
        """Return the embedder of a model, or of the default for None; raise BadRequest `unknown_model`."""
        if name is None:
            return self.default
        if name not in self._embedders:
            raise BadRequest(f"No such embeddings model; there are: {', '.join(self.names)}.", code="unknown_model")
        return self._embedders[name]

    async def close(self) -> None:
        for embedder in self._embedders.values():
            await embedder.close()


async def open_embedders(settings: Settings, *, arithmetic: Arithmetic | None = None) -> Embedders:
    """Open the endpoint's models, if any, and the local one. Raises ValueError for bad settings, or ModelFilesError."""
    folder: Path = settings.data_dir / MODEL_FOLDER
    models = remote_models(settings)
    local = await LocalEmbedder.open(folder, precision=settings.embeddings_precision, arithmetic=arithmetic)
    remote = [_remote(settings, name, dimensions, local.tokenizer) for name, dimensions in models.items()]
    return Embedders(*remote, local)


def _remote(settings: Settings, model: str, dimensions: int, tokenizer: WordPieces) -> RemoteEmbedder:
    is_default = model == settings.embeddings_model
    return RemoteEmbedder(
        url=settings.embeddings_url or "",
        api_key=settings.embeddings_api_key,
        model=model,
        dimensions=dimensions,
        ask_for_dimensions=is_default and settings.embeddings_dimensions is not None,
        tokenizer=tokenizer,
        workers=settings.workers,
    )


def remote_models(settings: Settings) -> dict[str, int]:
    """Return the endpoint's models and vector lengths, the default first; ValueError names a bad or missing setting."""
    default, further = remote_dimensions(settings), dict(settings.embeddings_further_models)
    if settings.embeddings_url is None or settings.embeddings_model is None:
        if further:
            raise ValueError("CARREL_EMBEDDINGS_FURTHER_MODELS are of the endpoint in CARREL_EMBEDDINGS_URL; set that.")
        return {}
    if {MINILM, settings.embeddings_model} & further.keys():
        raise ValueError("CARREL_EMBEDDINGS_FURTHER_MODELS names a model that there is already.")
    for dimensions in further.values():
        _check_dimensions(dimensions, setting="CARREL_EMBEDDINGS_FURTHER_MODELS")
    return {settings.embeddings_model: default, **further}


def remote_dimensions(settings: Settings) -> int:
    """Return the length of the endpoint's vectors; ValueError says which setting is missing or doesn't fit."""
    if settings.embeddings_url is not None and settings.embeddings_model is None:
        raise ValueError("CARREL_EMBEDDINGS_URL is set, so CARREL_EMBEDDINGS_MODEL must name a model there.")
    if settings.embeddings_url is not None and settings.embeddings_model == MINILM:
        raise ValueError(f"CARREL_EMBEDDINGS_MODEL can't be {MINILM}, which is the local model's name.")
    dimensions = settings.embeddings_dimensions or min(VECTOR_DIMENSIONS)
    _check_dimensions(dimensions, setting="CARREL_EMBEDDINGS_DIMENSIONS")
    return dimensions


def _check_dimensions(dimensions: int, *, setting: str) -> None:
    if dimensions not in VECTOR_DIMENSIONS:
        known = ", ".join(map(str, VECTOR_DIMENSIONS))
        raise ValueError(f"{setting} is {dimensions}; there are index tables for: {known}.")
