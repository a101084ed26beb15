"""Writes ONNX graphs of the embedder's own model into a folder, from its dequantized weights in fp32.

They use what ONNX Runtime's transformer optimizer fuses (Attention, SkipLayerNormalization, BiasGelu). `whole` is the
graph that people export; `pruned` leaves out, as Wellspring does, what the last layer computes and no output uses.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures" / "embedding"))
from reference import Granite

HIDDEN, HEADS = 384, 12


class Graph:
    """An ONNX graph that grows node by node."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, values, dtype=np.float32):
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype), name))
        return name

    def node(self, kind, *inputs, domain="", **attributes):
        name = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def build(self, output):
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in ("tokens", "positions")]
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["texts"]))
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["texts", HIDDEN])]
        graph = helper.make_graph(self.nodes, "granite", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def fused_graph(model, prunes):
    """The forward pass in ONNX Runtime's own fused operators."""
    graph = Graph()
    fused = {"domain": "com.microsoft"}
    words = graph.node("Gather", graph.constant(model.words), "tokens")
    positions = graph.node("Gather", graph.constant(model.positions), "positions")
    norm = [graph.constant(part) for part in model.norm]
    hidden = graph.node("SkipLayerNormalization", words, positions, *norm, epsilon=model.epsilon, **fused)
    first = graph.constant([0], np.int64)
    for number, layer in enumerate(model.layers):
        weights = graph.constant(layer["qkv"][0].T), graph.constant(layer["qkv"][1])
        attended = graph.node("Attention", hidden, *weights, "lengths", num_heads=HEADS, **fused)
        if prunes and number + 1 == len(model.layers):
            attended, hidden = (graph.node("Gather", rows, first, axis=1) for rows in (attended, hidden))
        attended = graph.node("MatMul", attended, graph.constant(layer["attended"][0].T))
        terms = [graph.constant(part) for part in (*layer["attended_norm"], layer["attended"][1])]
        hidden = graph.node("SkipLayerNormalization", hidden, attended, *terms, epsilon=model.epsilon, **fused)
        wide = graph.node("MatMul", hidden, graph.constant(layer["widen"][0].T))
        wide = graph.node("BiasGelu", wide, graph.constant(layer["widen"][1]), **fused)
        narrow = graph.node("MatMul", wide, graph.constant(layer["narrow"][0].T))
        terms = [graph.constant(part) for part in (*layer["narrow_norm"], layer["narrow"][1])]
        hidden = graph.node("SkipLayerNormalization", hidden, narrow, *terms, epsilon=model.epsilon, **fused)
    if not prunes:
        hidden = graph.node("Gather", hidden, first, axis=1)
    return graph.build(graph.node("Reshape", hidden, graph.constant([-1, HIDDEN], np.int64)))


model, folder = Granite(), Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name in ("whole", "pruned"):
    (folder / f"{name}.onnx").write_bytes(fused_graph(model, name == "pruned"))
model.tokenizer.save(str(folder / "tokenizer.json"))
