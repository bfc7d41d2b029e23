"""The local model computes according to the weights, in both precisions; files are built once and safely."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, cycle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from service.text.embedding import local, prepared
from service.text.embedding.graph import build
from service.text.embedding.local import Chosen, LocalEmbedder, Session, read_chosen
from service.text.embedding.models import MAX_PIECES, MAX_TOKENS, WordPieces, minilm
from service.text.embedding.prepared import GRAPH_VERSION, prepare
from service.text.embedding.weights import ModelFilesError, locate, read_folder
from tests.harness.cases import cases

DATA = Path(__file__).parent / "data"
TEXTS: list[str] = json.loads((DATA / "reference_texts.json").read_text())
TOKENIZER = WordPieces(locate().tokenizer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


@pytest.fixture(scope="module")
def exact(folder: Path) -> Session:
    return Session(prepare(folder, "fp32", files=locate()))


@pytest.fixture(scope="module")
def references() -> NDArray[np.float32]:
    """The reference texts' vectors by sentence-transformers 6.2.0 on torch 2.13.0, normalised."""
    return np.load(DATA / "reference_vectors.npy")


def test_int8_fits_16_bits(folder: Path):
    """Two neighbouring 8-bit weights times the largest activations fit 16 bits, used for sums by CPUs without VNNI."""
    model = onnx.load(prepare(folder, "int8", files=locate()))
    weights = [value for each in model.graph.initializer if (value := numpy_helper.to_array(each)).dtype == np.int8]
    assert len(weights) == 22
    for weight in weights:
        wide = weight.astype(int)
        assert np.abs(wide).max() * 255 < 2**15
        assert np.abs(wide[:-1] + wide[1:]).max() * 255 < 2**15


async def test_int8_is_near_and_the_same_in_any_company(folder: Path, references: NDArray[np.float32]):
    """A text's 8-bit vector is equal to the last bit, alone and among longer and shorter texts."""
    embedder = await LocalEmbedder.open(folder, precision="int8")
    together = await embedder.embed(TEXTS)
    alone = [await embedder.embed([text]) for text in TEXTS]
    await embedder.close()
    assert (together == np.concatenate(alone)).all()
    # No reference text scaled the weights.
    cosines = (together * references).sum(axis=1)
    assert cosines.min() >= 0.99
    assert cosines.mean() >= 0.997


async def test_equals_sentence_transformers_in_the_order_of_the_texts(folder: Path, references: NDArray[np.float32]):
    embedder = await LocalEmbedder.open(folder, precision="fp32")
    vectors = await embedder.embed(TEXTS)
    nothing = await embedder.embed([])
    await embedder.close()
    assert (vectors * references).sum(axis=1).min() >= 0.9999
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert nothing.shape == (0, 384)
    assert embedder.texts_embedded == len(TEXTS)


def test_the_faster_arithmetic_is_measured_once_a_processor(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A configured value wins without measuring. Another processor, or an unreadable file, causes a measurement."""
    monkeypatch.setattr(local, "MEASURED_SECONDS", 0)
    measured: list[str] = []

    def run(self: Session, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        measured.append("")
        return run_session(self, texts)

    run_session = Session.run
    monkeypatch.setattr(Session, "run", run)
    assert [local.choose(folder, each) for each in ("fp32", "int8")] == [Chosen("fp32"), Chosen("int8")]
    assert read_chosen(folder, "auto") is None
    assert not measured
    chosen = local.choose(folder, "auto")
    assert chosen.times_as_fast
    assert chosen.precision == ("int8" if chosen.times_as_fast > 1 else "fp32")
    assert chosen.processor
    before = len(measured)
    assert local.choose(folder, "auto") == read_chosen(folder, "auto") == chosen
    assert len(measured) == before > 0
    monkeypatch.setattr(local, "_name_processor", lambda: "Abacus")
    assert local.choose(folder, "auto").processor == "Abacus"
    (folder / "arithmetic.json").write_text("{")
    assert local.choose(folder, "auto").processor == "Abacus"


@pytest.mark.parametrize(("seconds", "precision"), [((0.2, 0.3), "int8"), ((0.3, 0.2), "fp32")])
def test_the_arithmetic_is_the_faster_one(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds, precision):
    clock = accumulate(cycle((0.0, 0.0, seconds[0], 0.0, seconds[1])))
    monkeypatch.setattr(local, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(local, "read_chosen", lambda *_: None)
    assert local.choose(folder, "auto").precision == precision


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
    """No further file is left: onnxruntime would store a machine id in the home folder, for the vendor."""
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    (tmp_path / "killed.partial").write_bytes(b"left by a process that was killed")
    code = (
        "import sys; from pathlib import Path; from service.text.embedding.prepared import prepare;"
        "from service.text.embedding.local import Session; from service.text.embedding.weights import locate;"
        "import numpy; session = Session(prepare(Path(sys.argv[1]), 'fp32', files=locate()));"
        "print(session.run([numpy.array([101, 102])]).shape)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["(1, 384)"] * 2
    assert sorted(path.suffix or path.name for path in tmp_path.iterdir()) == [".lock", ".onnx", ".weights"]
    assert list(home.iterdir()) == []


def test_weights_are_on_the_disk_before_the_graph_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = list[tuple[str, bool]]()
    monkeypatch.setattr(prepared, "sync", lambda path: synced.append((path.name, any(tmp_path.glob("*.onnx")))))
    graph = prepare(tmp_path, "fp32", files=locate())
    names = [graph.with_suffix(".weights").name, f"{graph.name}.partial", tmp_path.name]
    assert synced == [(name, False) for name in names]


def test_the_mean_is_the_models(exact: Session):
    mean = minilm().mean
    vectors = exact.run(TOKENIZER.token_ids(TEXTS[1:4]))
    assert mean.shape == (384,)
    assert 0.1 < np.linalg.norm(mean) < 0.5
    assert (np.linalg.norm(vectors - mean, axis=1) < np.linalg.norm(vectors, axis=1)).all()


@pytest.fixture
def given(tmp_path: Path) -> Path:
    shutil.copytree(
        locate().weights.parent, tmp_path / "given", copy_function=lambda one, copy: Path(copy).symlink_to(one)
    )
    return tmp_path / "given"


def export(folder: Path) -> None:
    graph = (model := build(replace(locate(), pooling="cls"))).graph
    (folder / "model.safetensors").unlink()
    del graph.output[:], graph.node[-2:]
    unknown = [
        onnx.helper.make_tensor_value_info(name, 1, None) for name in ("token_type_ids", graph.node[-1].output[0])
    ]
    graph.input.append(unknown[0])
    graph.output.append(unknown[1])
    onnx.save(model, folder / "model.onnx")


@pytest.mark.parametrize("change", [lambda _: None, export, lambda folder: (folder / "tokenizer.json").unlink()])
async def test_a_folder_has_the_vectors_of_its_weights(given, references, change):
    change(given)
    prompts = given / "config_sentence_transformers.json"
    prompts.unlink()
    prompts.write_text('{"prompts": {"query": "query: "}}')
    files = read_folder(given)
    for suffix in ("onnx", "npy"):  # as a power cut can leave them
        (given.parent / f"{files.name}.v{GRAPH_VERSION}.int8.{suffix}").touch()
    embedder = await LocalEmbedder.open(given.parent, precision="int8", files=files)
    vectors = await embedder.embed([*TEXTS, "query: a ferry"], in_background=True)
    of_query = await embedder.embed(["a ferry"])
    await embedder.close()
    assert (vectors[:-1] * references).sum(axis=1).min() > 0.98
    assert (of_query[0] == vectors[-1]).all()
    assert 0.1 < np.linalg.norm(embedder.model.mean) < 0.6


@pytest.mark.parametrize("case", cases("unfit_models"), ids=lambda case: case["says"])
async def test_what_a_folder_lacks_or_cannot_be_run_is_named(given: Path, case: dict[str, str]):
    (given / case["file"]).unlink()
    if "content" in case:
        (given / case["file"]).write_text(case["content"])
    with pytest.raises(ModelFilesError, match=case["says"]):
        await LocalEmbedder.open(given.parent, precision="int8", files=read_folder(given))
