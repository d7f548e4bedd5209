"""Builds the broken bundles of manifests.json as folders; the command's tests use the same list."""

from __future__ import annotations

import copy
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bad_inputs.build import CANARY

FILE = Path(__file__).with_name("manifests.json")
BASE = Path(__file__).resolve().parents[2] / "model_bundles" / "reference"
NAMES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class BadBundle:
    """One broken bundle; `later` is true where the fault shows when the bundle is used."""

    name: str
    kind: str
    change: dict[str, Any]
    code: str
    detail: str
    later: bool = False

    def build(self, folder: Path) -> Path:
        """Write the bundle below `folder` and return its own folder."""
        made = folder / "reference"
        made.mkdir()
        for name in NAMES:
            shutil.copyfile(BASE / name, made / name)
        if self.kind == "manifests":
            shutil.copyfile(BASE / "bundle.json", made / "bundle.json")
        _break(made / self.change.get("file", "bundle.json"), self.change)
        return made


def bad_bundles(kind: str) -> list[BadBundle]:
    """Return every entry of `manifests` or `folders`, with the canary planted."""
    listed = json.loads(FILE.read_text(encoding="utf-8").replace("CANARY", CANARY))
    return [
        BadBundle(entry["name"], kind, entry, entry["code"], entry["detail"], entry.get("later", False))
        for entry in listed[kind]
    ]


def good_bundle(folder: Path, *, manifest: bool) -> Path:
    """Write the bundle the entries start from, which is in order."""
    return BadBundle("base", "manifests" if manifest else "folders", {"replace": ("", "")}, "", "").build(folder)


def _break(path: Path, change: dict[str, Any]) -> None:
    if "absent" in change:
        path.unlink()
    elif "link" in change:
        shutil.move(path, path.parent / change["link"])
        os.symlink(change["link"], path)
    elif "cut" in change:
        path.write_bytes(path.read_bytes()[: change["cut"]])
    elif "hex" in change:
        path.write_bytes(bytes.fromhex(change["hex"]))
    elif "text" in change:
        path.write_text(change["text"], encoding="utf-8")
    elif "deep" in change:
        path.write_text("[" * change["deep"] + "]" * change["deep"], encoding="utf-8")
    elif "replace" in change and path.is_file():
        old, new = change["replace"]
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    elif "set" in change or "unset" in change:
        path.write_text(json.dumps(_edited(json.loads(path.read_text(encoding="utf-8")), change)), encoding="utf-8")


def _edited(value: Any, change: dict[str, Any]) -> Any:
    tree = copy.deepcopy(value)
    keys, new = change["set"] if "set" in change else (change["unset"], None)
    place = tree
    for key in keys[:-1]:
        place = place[key]
    if "unset" in change:
        del place[keys[-1]]
    else:
        place[keys[-1]] = _nested(new)
    return tree


def _nested(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"NESTED"}:
        nested: Any = {"type": "NFC"}
        for _ in range(value["NESTED"]):
            nested = {"type": "Sequence", "normalizers": [nested]}
        return nested
    return value
