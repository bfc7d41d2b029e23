"""The local model computes what its weights say, in both precisions, and its files are built once and safely."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import load_file

from service.text.embedding.local import LocalEmbedder
from service.text.embedding.models import minilm
from service.text.embedding.prepared import prepare
from service.text.embedding.session import Session
from service.text.embedding.tokenizer import MAX_PIECES, MAX_TOKENS, WordPieces
from service.text.embedding.weights import ModelFilesError, locate

DATA = Path(__file__).parent / "data"
TEXTS: list[str] = json.loads((DATA / "reference_texts.json").read_text())
HEADS = 12
TOKENIZER = WordPieces(locate().tokenizer)

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


@pytest.fixture(scope="module")
def exact(folder: Path) -> Session:
    return Session(prepare(folder, "fp32", files=locate()))


@pytest.fixture(scope="module")
def references() -> NDArray[np.float32]:
    """What sentence-transformers 6.2.0 on torch 2.13.0 made of the reference texts, normalised."""
    return np.load(DATA / "reference_vectors.npy")


class PlainBert:
    """BERT in plain numpy and double precision, written from the paper: slow, and independent of the graph."""

    def __init__(self) -> None:
        self.weights: Mapping[str, Array] = {
            name: value.astype(np.float64) for name, value in load_file(locate().weights).items() if value.ndim
        }

    def linear(self, value: Array, name: str) -> Array:
        return value @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, value: Array, name: str) -> Array:
        centred = value - value.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def layer(self, value: Array, prefix: str) -> Array:
        query, key, values = (
            np.split(self.linear(value, f"{prefix}.attention.self.{part}"), HEADS, axis=1)
            for part in ("query", "key", "value")
        )
        heads: list[Array] = []
        for head in range(HEADS):
            scores = query[head] @ key[head].T / math.sqrt(query[head].shape[1])
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ values[head])
        attended = self.linear(np.concatenate(heads, axis=1), f"{prefix}.attention.output.dense")
        value = self.norm(attended + value, f"{prefix}.attention.output.LayerNorm")
        hidden = self.linear(value, f"{prefix}.intermediate.dense")
        active = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        return self.norm(self.linear(active, f"{prefix}.output.dense") + value, f"{prefix}.output.LayerNorm")

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Embed one text: the mean over its tokens, at unit length."""
        tables = {
            part: self.weights[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")
        }
        value = tables["word"][ids] + tables["position"][: len(ids)] + tables["token_type"][0]
        value = self.norm(value, "embeddings.LayerNorm")
        for layer in range(6):
            value = self.layer(value, f"encoder.layer.{layer}")
        mean = value.mean(axis=0)
        return mean / np.linalg.norm(mean)


def test_equals_plain_numpy_and_padding_changes_nothing(exact: Session):
    bert = PlainBert()
    ids = TOKENIZER.token_ids([*TEXTS[:3], TEXTS[8], TEXTS[11]])
    assert np.abs(exact.run(ids) - np.array([bert.embed(text) for text in ids])).max() < 1e-4
    short, long = TOKENIZER.token_ids([TEXTS[1], TEXTS[19]])
    assert np.abs(exact.run([short, long])[0] - exact.run([short])[0]).max() < 1e-5


def test_int8_fits_16_bits(folder: Path):
    """Two neighbouring 8-bit weights times the largest activations fit 16 bits, which CPUs without VNNI add them in."""
    model = onnx.load(prepare(folder, "int8", files=locate()))
    weights = [value for each in model.graph.initializer if (value := numpy_helper.to_array(each)).dtype == np.int8]
    assert len(weights) == 22
    for weight in weights:
        wide = weight.astype(int)
        assert np.abs(wide).max() * 255 < 2**15
        assert np.abs(wide[:-1] + wide[1:]).max() * 255 < 2**15


async def test_int8_is_near_and_the_same_in_any_company(folder: Path, references: NDArray[np.float32]):
    """A text's 8-bit vector is the same to the last bit, alone and among texts of other lengths."""
    embedder = await LocalEmbedder.open(folder, precision="int8", threads=2)
    together = await embedder.embed(TEXTS)
    alone = [await embedder.embed([text]) for text in TEXTS]
    await embedder.close()
    assert (together == np.concatenate(alone)).all()
    # No reference text scaled the weights.
    cosines = (together * references).sum(axis=1)
    assert cosines.min() >= 0.99
    assert cosines.mean() >= 0.997


async def test_equals_sentence_transformers_in_the_order_of_the_texts(folder: Path, references: NDArray[np.float32]):
    embedder = await LocalEmbedder.open(folder, precision="fp32", threads=2)
    vectors = await embedder.embed(TEXTS)
    nothing = await embedder.embed([])
    await embedder.close()
    assert (vectors * references).sum(axis=1).min() >= 0.9999
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert nothing.shape == (0, 384)
    assert embedder.texts_embedded == len(TEXTS)


def test_tokenizer_is_not_cut_at_128():
    short, long = TOKENIZER.token_ids(["ferry", " ".join(["ferry"] * 300)])
    assert (len(short), len(long)) == (3, MAX_TOKENS)
    assert TOKENIZER.count([" ".join(["ferry"] * 300)]) == [300]
    assert TOKENIZER.count([TOKENIZER.cut("ferry " * 300, MAX_PIECES)]) == [MAX_PIECES]


def test_wrong_weights_are_refused(tmp_path: Path):
    wrong = tmp_path / "model.safetensors"
    wrong.write_bytes(b"something else")
    with pytest.raises(ModelFilesError, match="SHA-256"):
        prepare(tmp_path / "model", "fp32", files=replace(locate(), weights=wrong))
    assert not list((tmp_path / "model").glob("*.onnx"))


def test_two_processes_build_at_once(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    """Nothing else stays behind: onnxruntime would note a number of this machine in the home folder, for its maker."""
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    (tmp_path / "killed.partial").write_bytes(b"left by a process that was killed")
    code = (
        "import sys; from pathlib import Path; from service.text.embedding.prepared import prepare;"
        "from service.text.embedding.session import Session; from service.text.embedding.weights import locate;"
        "import numpy; session = Session(prepare(Path(sys.argv[1]), 'fp32', files=locate()));"
        "print(session.run([numpy.array([101, 102])]).shape)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["(1, 384)"] * 2
    assert sorted(path.suffix or path.name for path in tmp_path.iterdir()) == [".lock", ".onnx"]
    assert list(home.iterdir()) == []


def test_the_mean_is_the_models(exact: Session):
    mean = minilm().mean
    vectors = exact.run(TOKENIZER.token_ids(TEXTS[1:4]))
    assert mean.shape == (384,)
    assert 0.1 < np.linalg.norm(mean) < 0.5
    assert (np.linalg.norm(vectors - mean, axis=1) < np.linalg.norm(vectors, axis=1)).all()
