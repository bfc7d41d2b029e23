"""Texts to vectors, by the configured models: `Embedders.get(name)`, then `await embedder.embed(texts)`."""

import asyncio
from collections.abc import Sequence
from itertools import zip_longest
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from service.platform.errors import BadRequest
from service.platform.settings import VECTOR_DIMENSIONS, Settings
from service.text.embedding.local import Arithmetic, LocalEmbedder, choose
from service.text.embedding.models import MINILM, Embedder, EmbeddingModel, WordPieces
from service.text.embedding.remote import RemoteEmbedder
from service.text.embedding.weights import ModelFiles, locate, read_folder

__all__ = ["MINILM", "Arithmetic", "Embedder", "Embedders", "EmbeddingModel", "WordPieces", "open_embedders"]

MODEL_FOLDER = "model"  # in the data folder; all its contents can be rebuilt

MOST_REMEMBERED = 512  # the queries whose vectors a worker remembers


class Embedders:
    """The service's embedders by model name; the first is the default."""

    def __init__(self, *embedders: Embedder) -> None:
        self._embedders = {each.model.name: each for each in embedders}
        self.default = embedders[0]
        self._remembered: dict[tuple[UUID, str, *tuple[str, ...]], NDArray[np.float32]] = {}

    @property
    def texts_embedded(self) -> int:
        return sum(embedder.texts_embedded for embedder in self._embedders.values())

    def get(self, name: str | None = None) -> Embedder:
        """Return the embedder of a model; None means the default. Raises BadRequest `unknown_model`."""
        if name is None:
            return self.default
        if name not in self._embedders:
            raise BadRequest(
                f"There is no such embeddings model. Choose one of: {', '.join(self._embedders)}.", code="unknown_model"
            )
        return self._embedders[name]

    async def embed_query(self, texts: Sequence[str], *, model: str, asker: UUID) -> NDArray[np.float32]:
        """Return the vectors of a query, remembered for the same principal: the time must not tell what others ask."""
        query = (asker, model, *texts)
        vectors = self._remembered.pop(query, None)
        if vectors is None:
            vectors = await self.get(model).embed(texts)
        self._remembered[query] = vectors  # behind the queries that are longer ago
        if len(self._remembered) > MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return vectors

    async def close(self) -> None:
        for embedder in self._embedders.values():
            await embedder.close()


def local_files(settings: Settings) -> list[ModelFiles]:
    """Return the files of the local models, starting with the wheel's; raises ModelFilesError."""
    return [locate(), *map(read_folder, settings.embeddings_folder)]


async def open_embedders(settings: Settings, *, arithmetic: Sequence[Arithmetic] = ()) -> Embedders:
    """Open all models; `arithmetic` is for the local models. Raises ValueError for bad settings, or ModelFilesError."""
    models, folder = remote_models(settings), settings.data_dir / MODEL_FOLDER
    precision = (await asyncio.to_thread(choose, folder, settings.embeddings_precision)).precision
    local, *folders = [
        await LocalEmbedder.open(folder, precision=precision, arithmetic=engine, files=files)
        for files, engine in zip_longest(local_files(settings), arithmetic)
    ]
    for each in folders:
        _check_dimensions(each.model.dimensions, setting=f"CARREL_EMBEDDINGS_FOLDER: the length of {each.model.name}")
        each.tokenizer = local.tokenizer
    remote = [
        RemoteEmbedder(
            url=settings.embeddings_url or "",
            api_key=settings.embeddings_api_key,
            model=name,
            dimensions=dimensions,
            ask_for_dimensions=name == settings.embeddings_model and settings.embeddings_dimensions is not None,
            tokenizer=local.tokenizer,
            workers=settings.workers,
        )
        for name, dimensions in models.items()
    ]
    return Embedders(*folders, *remote, local)


def remote_models(settings: Settings) -> dict[str, int]:
    """Return the endpoint's models and vector lengths, the default first; ValueError names a bad or missing setting."""
    default, further = settings.embeddings_dimensions or min(VECTOR_DIMENSIONS), settings.embeddings_further_models
    _check_dimensions(default, setting="CARREL_EMBEDDINGS_DIMENSIONS")
    for dimensions in further.values():
        _check_dimensions(dimensions, setting="CARREL_EMBEDDINGS_FURTHER_MODELS")
    if {MINILM, settings.embeddings_model} & further.keys():
        raise ValueError("CARREL_EMBEDDINGS_FURTHER_MODELS has a model that already exists.")
    if settings.embeddings_url is None:
        if further:
            raise ValueError("CARREL_EMBEDDINGS_FURTHER_MODELS needs an endpoint: set CARREL_EMBEDDINGS_URL.")
        return {}
    if settings.embeddings_model is None:
        raise ValueError("CARREL_EMBEDDINGS_URL is set, so set CARREL_EMBEDDINGS_MODEL to a model of that endpoint.")
    if settings.embeddings_model == MINILM:
        raise ValueError(f"CARREL_EMBEDDINGS_MODEL can't be {MINILM}, because the local model has this name.")
    return {settings.embeddings_model: default, **further}


def _check_dimensions(dimensions: int, *, setting: str) -> None:
    if dimensions not in VECTOR_DIMENSIONS:
        known = ", ".join(map(str, VECTOR_DIMENSIONS))
        raise ValueError(f"{setting} is {dimensions}; there are index tables for: {known}.")
