"""Build all-MiniLM-L6-v2 as an ONNX graph (opset 20) from its safetensors. The graph takes token ids and a mask, and
returns unit vectors after mean pooling. The layers are BERT's (Devlin et al. 2018): post-layer-norm, exact GELU,
twelve heads of 32. The type hints of onnx and safetensors are incomplete: they take an operator's attributes for
parameters."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportArgumentType=false

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

OPSET = 20
"""The first with GELU as one operator."""

IR_VERSION = 9
"""What belongs to opset 20: older runtimes read it too."""

_MASKED = -10_000.0
"""Added to the attention scores of padding; large enough for softmax to give exactly 0."""

Attribute = int | float | list[int]
Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The transformer's sizes, from its config.json."""

    width: int
    heads: int
    layers: int
    epsilon: float

    @classmethod
    def read(cls, config: Path) -> "Shape":
        """Read the sizes of a BERT model."""
        values = json.loads(config.read_text())
        return cls(
            values["hidden_size"], values["num_attention_heads"], values["num_hidden_layers"], values["layer_norm_eps"]
        )


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


def build(weights: Path, config: Path) -> onnx.ModelProto:
    """Build the graph from `input_ids`, `attention_mask` (int64, batch x length) to `embedding` (batch x width)."""
    shape, tensors = Shape.read(config), load_file(weights)
    graph = _Builder()
    value = _embeddings(graph, tensors, shape)
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    padding = graph.node("Sub", [graph.constant("one", np.array(1, np.float32)), mask], "padding")
    scaled = graph.node("Mul", [padding, graph.constant("masked", np.array(_MASKED, np.float32))], "padding.scores")
    bias = graph.node("Unsqueeze", [scaled, graph.integers(1, 2)], "mask.bias")
    for layer in range(shape.layers):
        value = _layer(graph, tensors, shape, prefix=f"encoder.layer.{layer}", value=value, bias=bias)
    _pool(graph, value)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", shape.width])]
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, list(graph.constants.values()))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="carrel")


def _embeddings(graph: _Builder, tensors: Weights, shape: Shape) -> str:
    """Add the embeddings of words and positions; the only token type is added to the positions beforehand."""
    words = graph.constant("words", tensors["embeddings.word_embeddings.weight"])
    folded = tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][0]
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    positions = graph.node(
        "Slice", [graph.constant("positions", folded), graph.integers(0), length, graph.integers(0)], "positions.used"
    )
    summed = graph.node("Add", [graph.node("Gather", [words, "input_ids"], "words.used"), positions], "embeddings")
    return graph.normalise(summed, "embeddings.LayerNorm", tensors, shape.epsilon)


def _layer(graph: _Builder, tensors: Weights, shape: Shape, *, prefix: str, value: str, bias: str) -> str:

    def linear(value: str, name: str) -> str:
        return graph.linear(value, name, tensors[name + ".weight"], tensors[name + ".bias"])

    attended = _attention(graph, tensors, shape, prefix=prefix, value=value, bias=bias)
    projected = linear(attended, f"{prefix}.attention.output.dense")
    added = graph.node("Add", [projected, value], f"{prefix}.attention.sum")
    value = graph.normalise(added, f"{prefix}.attention.output.LayerNorm", tensors, shape.epsilon)
    hidden = graph.node("Gelu", [linear(value, f"{prefix}.intermediate.dense")], f"{prefix}.gelu")
    added = graph.node("Add", [linear(hidden, f"{prefix}.output.dense"), value], f"{prefix}.sum")
    return graph.normalise(added, f"{prefix}.output.LayerNorm", tensors, shape.epsilon)


def _attention(graph: _Builder, tensors: Weights, shape: Shape, *, prefix: str, value: str, bias: str) -> str:
    """Add scaled dot-product attention; the three projections are one product, the query includes the scale."""
    parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
    scales = (np.float32((shape.width // shape.heads) ** -0.5), np.float32(1), np.float32(1))
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
    return graph.node("Reshape", [joined, graph.integers(0, 0, shape.width)], f"{prefix}.attended")


def _heads(graph: _Builder, shape: Shape, value: str, order: list[int]) -> str:
    split = graph.integers(0, 0, shape.heads, shape.width // shape.heads)
    return graph.node(
        "Transpose", [graph.node("Reshape", [value, split], value + ".split")], value + ".heads", perm=order
    )


def _pool(graph: _Builder, value: str) -> None:
    mask = graph.node("Unsqueeze", ["mask", graph.integers(1)], "mask.row")
    pooled = graph.node("Squeeze", [graph.node("MatMul", [mask, value], "sum.row"), graph.integers(1)], "sum")
    graph.node("LpNormalization", [pooled], "embedding", axis=-1, p=2)
