"""An ONNX graph (opset 20) built from safetensors or completed: token ids and mask to pooled unit vectors by BERT's
layers (Devlin et al. 2018: post-layer-norm, exact GELU). The type hints of onnx and safetensors are incomplete."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportArgumentType=false

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from service.text.embedding.weights import ModelFiles

OPSET = 20  # the first opset with GELU as a single operator

IR_VERSION = 9  # the IR version of opset 20; older runtimes can read it too

_OUTPUT = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", None])

_MASKED = -10_000.0  # added to the attention scores of padding; large enough for softmax to give exactly 0

_FIRST_POSITIONS = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2}
"""The supported kinds of model, and the row of a text's first token in the table of positions."""

Attribute = int | float | list[int]
Weights = Mapping[str, NDArray[np.float32]]
Shape = Mapping[str, Any]  # of config.json


@dataclass
class _Builder:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def integers(self, *values: int) -> str:
        return self.constant("integers_" + "_".join(map(str, values)), np.array(values, np.int64))

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def split(self, value: str, *outputs: str) -> None:
        self.nodes.append(
            helper.make_node("Split", [value], outputs, name=value + ".split", axis=-1, num_outputs=len(outputs))
        )

    def linear(self, value: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        product = self.node("MatMul", [value, self.constant(name + ".weight", weight.T)], name + ".product")
        return self.node("Add", [product, self.constant(name + ".bias", bias)], name)

    def normalise(self, value: str, name: str, weights: Weights, epsilon: float) -> str:
        scale = self.constant(name + ".weight", weights[name + ".weight"])
        bias = self.constant(name + ".bias", weights[name + ".bias"])
        return self.node("LayerNormalization", [value, scale, bias], name, axis=-1, epsilon=epsilon)


def build(files: ModelFiles) -> onnx.ModelProto:
    """Build the graph from `input_ids`, `attention_mask` (int64, batch x length) to `embedding` (batch x width)."""
    if files.weights.suffix == ".onnx":
        return _complete(files)
    shape, tensors = json.loads(files.config.read_text()), _read(files.weights)
    if shape["model_type"] not in _FIRST_POSITIONS or shape["hidden_act"] != "gelu":
        raise ValueError(f"it is not of {', '.join(_FIRST_POSITIONS)} with gelu. Put model.onnx in its place.")
    graph = _Builder()
    value = _embeddings(graph, tensors, shape)
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    padding = graph.node("Sub", [graph.constant("one", np.array(1, np.float32)), mask], "padding")
    scaled = graph.node("Mul", [padding, graph.constant("masked", np.array(_MASKED, np.float32))], "padding.scores")
    bias = graph.node("Unsqueeze", [scaled, graph.integers(1, 2)], "mask.bias")
    for layer in range(shape["num_hidden_layers"]):
        value = _layer(graph, tensors, shape, prefix=f"encoder.layer.{layer}", value=value, bias=bias)
    _pool(graph, value, mask, files.pooling)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    body = helper.make_graph(graph.nodes, files.name, inputs, [_OUTPUT], list(graph.constants.values()))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="carrel")


def _read(weights: Path) -> Weights:
    """Read the tensors by BERT's names; some files prefix the names with the name of the model."""
    tensors = load_file(weights)
    return {re.sub(r"^(bert|roberta)\.", "", name): tensors[name].astype(np.float32, copy=False) for name in tensors}


def _complete(files: ModelFiles) -> onnx.ModelProto:
    """Return an ONNX graph with pooling appended, and without token types, which are all 0."""
    model, graph = onnx.load(files.weights), _Builder()
    graph.node("Sub", ["input_ids", "input_ids"], "token_type_ids")
    mask = graph.node("Cast", ["attention_mask"], "pooling.mask", to=TensorProto.FLOAT)
    _pool(graph, model.graph.output[0].name, mask, files.pooling)
    nodes = [*graph.nodes[:2], *model.graph.node, *graph.nodes[2:]]
    inputs = [each for each in model.graph.input if each.name != "token_type_ids"]
    constants = [*model.graph.initializer, *graph.constants.values()]
    body = helper.make_graph(nodes, files.name, inputs, [_OUTPUT], constants)
    return helper.make_model(body, opset_imports=model.opset_import, ir_version=model.ir_version)


def _embeddings(graph: _Builder, tensors: Weights, shape: Shape) -> str:
    """Add the embeddings of words and positions; the only token type is added to the positions beforehand."""
    words = graph.constant("words", tensors["embeddings.word_embeddings.weight"])
    positions = tensors["embeddings.position_embeddings.weight"][_FIRST_POSITIONS[shape["model_type"]] :]
    folded = positions + tensors["embeddings.token_type_embeddings.weight"][0]
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    used = graph.node(
        "Slice", [graph.constant("positions", folded), graph.integers(0), length, graph.integers(0)], "positions.used"
    )
    summed = graph.node("Add", [graph.node("Gather", [words, "input_ids"], "words.used"), used], "embeddings")
    return graph.normalise(summed, "embeddings.LayerNorm", tensors, shape["layer_norm_eps"])


def _layer(graph: _Builder, tensors: Weights, shape: Shape, *, prefix: str, value: str, bias: str) -> str:
    def linear(value: str, name: str) -> str:
        return graph.linear(value, name, tensors[name + ".weight"], tensors[name + ".bias"])

    attended = _attention(graph, tensors, shape, prefix=prefix, value=value, bias=bias)
    projected = linear(attended, f"{prefix}.attention.output.dense")
    added = graph.node("Add", [projected, value], f"{prefix}.attention.sum")
    value = graph.normalise(added, f"{prefix}.attention.output.LayerNorm", tensors, shape["layer_norm_eps"])
    hidden = graph.node("Gelu", [linear(value, f"{prefix}.intermediate.dense")], f"{prefix}.gelu")
    added = graph.node("Add", [linear(hidden, f"{prefix}.output.dense"), value], f"{prefix}.sum")
    return graph.normalise(added, f"{prefix}.output.LayerNorm", tensors, shape["layer_norm_eps"])


def _attention(graph: _Builder, tensors: Weights, shape: Shape, *, prefix: str, value: str, bias: str) -> str:
    """Add scaled dot-product attention. The three projections are a single product; the query includes the scale."""
    parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
    scales = (np.float32((shape["hidden_size"] // shape["num_attention_heads"]) ** -0.5), np.float32(1), np.float32(1))
    weight = np.concatenate([tensors[part + ".weight"] * scale for part, scale in zip(parts, scales, strict=True)])
    offset = np.concatenate([tensors[part + ".bias"] * scale for part, scale in zip(parts, scales, strict=True)])
    graph.split(graph.linear(value, f"{prefix}.projections", weight, offset), *parts)
    query, key, values = (
        _heads(graph, shape, part, order)
        for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = graph.node("Add", [graph.node("MatMul", [query, key], f"{prefix}.scores"), bias], f"{prefix}.masked")
    shares = graph.node("Softmax", [scores], f"{prefix}.shares", axis=-1)
    mixed = graph.node("MatMul", [shares, values], f"{prefix}.mixed")
    joined = graph.node("Transpose", [mixed], f"{prefix}.joined", perm=[0, 2, 1, 3])
    return graph.node("Reshape", [joined, graph.integers(0, 0, shape["hidden_size"])], f"{prefix}.attended")


def _heads(graph: _Builder, shape: Shape, value: str, order: list[int]) -> str:
    split = graph.integers(0, 0, shape["num_attention_heads"], shape["hidden_size"] // shape["num_attention_heads"])
    return graph.node(
        "Transpose", [graph.node("Reshape", [value, split], value + ".split")], value + ".heads", perm=order
    )


def _pool(graph: _Builder, value: str, mask: str, pooling: str) -> None:
    """Add the pooling, using only operators also present in earlier opsets."""
    if pooling == "cls":
        pooled = graph.node("Gather", [value, graph.constant("first", np.array(0, np.int64))], "pooled", axis=1)
    else:
        row = graph.node("Reshape", [mask, graph.integers(0, 1, -1)], "mask.row")
        pooled = graph.node("Reshape", [graph.node("MatMul", [row, value], "sum.row"), graph.integers(0, -1)], "sum")
    graph.node("LpNormalization", [pooled], "embedding", axis=-1, p=2)
