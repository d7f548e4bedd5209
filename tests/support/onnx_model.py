"""A toy model for onnxruntime-genai: a graph without weights whose cache holds the ids it was given.

The next token is the last id plus one, and the keys it keeps are the ids themselves as numbers: what the runtime
handed to the model can be read back.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

NAMES = {"past_key_names": "past.%d.key", "past_value_names": "past.%d.value"}


def installed() -> bool:
    """Tell whether the wheels are here."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime_genai"))


NEEDS_ONNX = [
    pytest.mark.runtime,
    pytest.mark.skipif(not installed(), reason="onnx and onnxruntime-genai are not installed: no runtime to ask"),
]
"""Marks of a module whose tests ask onnxruntime-genai; `make test-adapters` runs them."""


def write_model(folder: Path, tokenizer: Path, *, vocabulary: int, context: int, begin: int, end: int) -> Path:
    """Write graph, configuration and the tokenizer of another folder into `folder`; sizes in tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(graph(vocabulary))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
    decoder = {
        "filename": "model.onnx", "head_size": 1, "hidden_size": 1, "num_attention_heads": 1, "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **NAMES},
        "outputs": {
            "logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value",
        },
    }  # fmt: skip
    model = {
        "type": "llama", "bos_token_id": begin, "eos_token_id": end, "pad_token_id": end, "context_length": context,
        "vocab_size": vocabulary, "decoder": decoder,
    }  # fmt: skip
    search = {"do_sample": False, "max_length": context, "min_length": 0, "num_beams": 1,
              "past_present_share_buffer": False}  # fmt: skip
    (folder / "genai_config.json").write_text(json.dumps({"model": model, "search": search}), encoding="utf-8")
    return folder


def graph(vocabulary: int) -> bytes:
    """Return the graph: keys and values grow by the ids as floats, logits are one-hot at the id after."""
    from onnx import TensorProto, helper

    whole, real = TensorProto.INT64, TensorProto.FLOAT

    def constant(name: str, kind: int, values: list[Any], shape: list[int] | None = None) -> Any:
        return helper.make_tensor(name, kind, [len(values)] if shape is None else shape, values)

    def cache(name: str, length: str) -> Any:
        return helper.make_tensor_value_info(name, real, ["batch", 1, length, 1])

    nodes = [
        helper.make_node("Cast", ["input_ids"], ["as_real"], to=real),
        helper.make_node("Unsqueeze", ["as_real", "places"], ["kept"]),
        helper.make_node("Concat", ["past.0.key", "kept"], ["present.0.key"], axis=2),
        helper.make_node("Concat", ["past.0.value", "kept"], ["present.0.value"], axis=2),
        helper.make_node("Add", ["input_ids", "one"], ["after"]),
        helper.make_node("Mod", ["after", "size"], ["next"]),
        helper.make_node("OneHot", ["next", "size", "off_on"], ["logits"], axis=-1),
    ]
    inputs = [
        helper.make_tensor_value_info("input_ids", whole, ["batch", "new"]),
        helper.make_tensor_value_info("attention_mask", whole, ["batch", "total"]),
        cache("past.0.key", "past"), cache("past.0.value", "past"),
    ]  # fmt: skip
    outputs = [
        helper.make_tensor_value_info("logits", real, ["batch", "new", vocabulary]),
        cache("present.0.key", "total"), cache("present.0.value", "total"),
    ]  # fmt: skip
    numbers = [
        constant("places", whole, [1, 3]), constant("one", whole, [1], []), constant("size", whole, [vocabulary], []),
        constant("off_on", real, [0.0, 1.0]),
    ]  # fmt: skip
    made = helper.make_graph(nodes, "toy", inputs, outputs, numbers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
