"""Quantize the model's graph to 8 bits, with a scale per column of weights and per batch of activations. Exact and
quantized vectors can be searched together. Large activation channels are divided by a factor, and weight rows
multiplied (SmoothQuant, Xiao et al. 2023). `scripts/embedding_ranges.py` measures each channel's largest values."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

RANGES_FILE = Path(__file__).with_name("all-MiniLM-L6-v2.ranges.npz")
"""For each product of activations and weights, the largest absolute value of each activation channel."""

KEPT_EXACT = ("encoder.layer.0.output.dense.product", "encoder.layer.2.output.dense.product")
"""The products of all-MiniLM-L6-v2 most harmed by 8 bits; exact, they halve the distance for a fifth more time."""

_SHIFT = 0.75
"""The share of a channel's range moved from the activations, with a single scale, to the weights, with many."""

_SMALLEST = 1e-5  # used for an always-zero channel, to keep the factor finite

_LARGEST = 127
"""The limit of a weight, and of the sum of two neighbours before rounding. CPUs without VNNI add two products in 16
bits: 255 (an activation) times 128 fits, twice 127 does not. With this limit every CPU computes equal sums."""

_Floats = NDArray[np.float32]


def weight_products(model: onnx.ModelProto) -> Mapping[str, onnx.NodeProto]:
    """Return the products of activations and weights by output name; attention multiplies two activations instead."""
    constants = {each.name for each in model.graph.initializer}
    return {
        node.output[0]: node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in constants
    }


def measure(model: onnx.ModelProto, texts: Sequence[NDArray[np.int64]]) -> tuple[dict[str, _Floats], _Floats]:
    """Return the largest absolute value of each channel entering a product with weights, and the mean vector."""
    inputs = {name: node.input[0] for name, node in weight_products(model).items()}
    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    probed.graph.output.extend(
        helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in {*inputs.values()}
    )
    session = onnxruntime.InferenceSession(probed.SerializeToString(), providers=["CPUExecutionProvider"])
    largest, vectors = {name: np.zeros(1, np.float32) for name in inputs}, list[_Floats]()
    for ids in texts:
        feeds = {"input_ids": ids[None], "attention_mask": np.ones_like(ids)[None]}
        vector, *values = cast("list[_Floats]", session.run(["embedding", *inputs.values()], feeds))
        vectors.append(vector[0])
        for name, value in zip(inputs, values, strict=True):
            largest[name] = np.maximum(largest[name], np.abs(value[0]).max(axis=0))
    return largest, np.mean(vectors, axis=0)


def quantize(model: onnx.ModelProto, ranges: Mapping[str, _Floats]) -> None:
    """Convert the products with ranges to 8 bits. A text's vector then depends on the batch."""
    constants = {each.name: each for each in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.output[0] not in ranges:
            nodes.append(node)
            continue
        weight = constants.pop(node.input[1])
        made, added = _quantize_product(node, numpy_helper.to_array(weight), ranges[node.output[0]])
        nodes += made
        constants |= {each.name: each for each in added}
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants.values())


def _quantize_product(
    node: onnx.NodeProto, weight: _Floats, activations: _Floats
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    name = node.output[0]
    # The factor of each channel, from the largest values of both sides; the factors' geometric mean is 1.
    largest = np.maximum(np.abs(weight).max(axis=1), _SMALLEST)
    shifted = np.maximum(activations, _SMALLEST) ** _SHIFT / largest ** (1 - _SHIFT)
    factors = shifted / np.exp(np.log(shifted).mean())
    smoothed = weight * factors[:, None]
    alone, together = np.abs(smoothed).max(axis=0), np.abs(smoothed[:-1] + smoothed[1:]).max(axis=0)
    scales = np.maximum(alone, together) / np.float32(_LARGEST)
    whole = np.rint(smoothed / scales).astype(np.int8)
    divided, rounded, scale, zero = (f"{name}.{part}" for part in ("divided", "rounded", "scale", "zero"))
    summed, cast, scaled = (f"{name}.{part}" for part in ("summed", "cast", "scales"))
    constants = [
        numpy_helper.from_array(value, f"{name}.{part}")
        for part, value in (("inverse_factors", 1 / factors), ("weight", whole), ("weight_scales", scales))
    ]
    inverse, weights, weight_scales = (each.name for each in constants)
    return [
        helper.make_node("Mul", [node.input[0], inverse], [divided], name=divided),
        helper.make_node("DynamicQuantizeLinear", [divided], [rounded, scale, zero], name=rounded),
        helper.make_node("MatMulInteger", [rounded, weights, zero], [summed], name=summed),
        helper.make_node("Cast", [summed], [cast], name=cast, to=TensorProto.FLOAT),
        helper.make_node("Mul", [scale, weight_scales], [scaled], name=scaled),
        helper.make_node("Mul", [cast, scaled], list(node.output), name=name),
    ], constants
