"""Write bundle.json of the bundles whose template is ours, from their files; `--check` proves them.

    python tools/shipped_bundles/manifests.py            writes bundle.json of reference and mistral-nemo
    python tools/shipped_bundles/manifests.py --check    exit 1 when a committed manifest differs

Sizes, digests and control tokens are read from the files: those of `reference` lie beside its manifest, the
tokenizer of `mistral-nemo` in the installed distribution mistral-common, which is opened and never imported.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

BUNDLES = Path(__file__).resolve().parents[2] / "model_bundles"
TIERS = {"4k": 4_096, "8k": 8_192, "32k": 32_768}
TEKKEN = "tekken_240718.json"
MISTRAL_FOLDER = "mistral_common/data"
# The version that the template was certified against; later ones of the same series bring the same file.
MISTRAL_VERSION = "1.13.1"
# The distribution names these ids in its code, not in the file; the other special ids are <SPECIAL_n>.
TEKKEN_NAMES = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip


def control_row(number: int, text: str) -> dict[str, Any]:
    """Return one row of controlTokens; none of our bundles' tokens swallows a neighbour."""
    return {"id": number, "text": text, "lstrip": False, "rstrip": False}


def file_row(path: Path, place: str | None = None) -> dict[str, Any]:
    """Return one row of files: name, size in bytes, sha256."""
    data = path.read_bytes()
    row = {"path": path.name, "sizeBytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return row if place is None else {**row, "place": place}


def common(template: Path, context_tokens: int) -> dict[str, Any]:
    """Return what both manifests state in the same way."""
    return {
        "template": {
            "file": template.name,
            "entry": "default",
            "version": "1",
            "sha256": hashlib.sha256(template.read_bytes()).hexdigest(),
        },
        "runtime": None,
        "contextTokens": context_tokens,
        "tiers": [{"id": name, "maxInputTokens": size, "validTo": None} for name, size in TIERS.items()],
        "reservedOutputTokens": None,
        "safetyMarginTokens": None,
        "encodeMode": "runs",
        "prefixSpace": None,
    }


def reference() -> dict[str, Any]:
    """Return the manifest of the bundle that we trained ourselves."""
    folder = BUNDLES / "reference"
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    controls = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    # In a byte-level vocabulary each character of an ordinary token stands for one byte.
    longest_bytes = max(len(text) for text in tokenizer["model"]["vocab"])
    names = ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json")
    return {
        "schemaVersion": "1.0",
        "id": "reference",
        "baseModel": None,
        "adapter": None,
        "licence": "Apache-2.0",
        "origin": None,
        "tokenizerFormat": "tokenizer_json",
        "files": [file_row(folder / name) for name in names],
        **common(folder / "chat_template.jinja", config["model_max_length"]),
        "longestTokenBytes": longest_bytes,
        "variables": {name: config[name] for name in ("bos_token", "eos_token", "pad_token")},
        "concessions": [],
        "rewrites": [],
        "controlTokens": [control_row(number, text) for text, number in controls.items()],
        "notes": [],
    }


def mistral_nemo() -> dict[str, Any]:
    """Return the manifest over mistral-common's tekken file and our template."""
    distribution = importlib.metadata.distribution("mistral-common")
    tekken = Path(str(distribution.locate_file(f"{MISTRAL_FOLDER}/{TEKKEN}")))
    file = json.loads(tekken.read_text(encoding="utf-8"))
    special_count = file["config"]["default_num_special_tokens"]
    ranks = file["vocab"][: file["config"]["default_vocab_size"] - special_count]
    folder = BUNDLES / "mistral-nemo"
    specials = [*TEKKEN_NAMES, *(f"<SPECIAL_{n}>" for n in range(len(TEKKEN_NAMES), special_count))]
    return {
        "schemaVersion": "1.0",
        "id": "mistral-nemo",
        "baseModel": "mistralai/Mistral-Nemo-Instruct-2407",
        "adapter": None,
        "licence": "Apache-2.0",
        "origin": {
            "distribution": "mistral-common",
            "version": MISTRAL_VERSION,
            "folder": MISTRAL_FOLDER,
            "extra": "mistral",
        },
        "tokenizerFormat": "tekken",
        "files": [file_row(tekken, "origin"), file_row(folder / "chat_template.jinja", "folder")],
        **common(folder / "chat_template.jinja", 131_072),
        "longestTokenBytes": max(len(base64.b64decode(row["token_bytes"])) for row in ranks),
        "variables": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        "concessions": [],
        "rewrites": ["rstrip_assistant_spaces", "arguments_object", "results_json"],
        "controlTokens": [control_row(number, text) for number, text in enumerate(specials)],
        "notes": [],
        # As the model's publisher states them: 40 layers, 8 kv heads, head size 128.
        "kv": plain_cache(layers=40, kv_heads=8, length=128),
    }


def plain_cache(layers: int, kv_heads: int, length: int) -> dict[str, Any]:
    """Return the attention cache of a model whose layers are all alike and see every token."""
    return {
        "layers": layers, "kvHeads": [kv_heads] * layers, "keyLength": length, "valueLength": length,
        "slidingWindow": None, "slidingLayers": None, "slidingKeyLength": length, "slidingValueLength": length,
        "sharedLayers": 0,
    }  # fmt: skip


def manifest_text(value: dict[str, Any]) -> str:
    """Return a manifest as JSON for people: indented, but each control token and the heads on one line."""
    rows = ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in value["controlTokens"])
    text = json.dumps({**value, "controlTokens": []}, ensure_ascii=False, indent=2)
    if "kv" in value:
        heads = value["kv"]["kvHeads"]
        text = re.sub(r"\"kvHeads\": \[[^]]*\]", f'"kvHeads": {json.dumps(heads)}', text)
    return text.replace('"controlTokens": []', f'"controlTokens": [\n    {rows}\n  ]') + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the manifests or compare them; 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args(argv).check
    different = 0
    for value in (reference(), mistral_nemo()):
        path = BUNDLES / value["id"] / "bundle.json"
        data = manifest_text(value).encode("utf-8")
        if check:
            same = path.is_file() and path.read_bytes() == data
            different += not same
            sys.stdout.write(f"{value['id']}: {'equal to' if same else 'differs from'} its files\n")
        else:
            path.write_bytes(data)
            sys.stdout.write(f"{value['id']}: written\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
