"""Compare `planner bundle add` with merely loading the same tokenizer, for every model of a folder.

    python benchmarks/bench_bundle_add.py [FOLDER ..] [--only NAME ..] [--json OUT.json]

FOLDER holds model folders and files; without one, the expanded data of the tests. Figures are CPU seconds of whole
processes (user and system, the template's probe included), caches empty, everything measured once: copies, digests,
control tokens, self-test, measured template. Loading is done by the format's own library, of a GGUF or LiteRT-LM
file by our reader. Exit 1 where adding costs more than twice loading and two seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FACTOR, SLACK_SECONDS = 2.0, 2.0
LOAD = """
import sys
from pathlib import Path
path = Path(sys.argv[1])
if path.is_file():
    from planner.bundles.open import opener_of
    opener_of(path)(path).parts
elif (path / "tokenizer.json").is_file():
    from tokenizers import Tokenizer
    Tokenizer.from_file(str(path / "tokenizer.json"))
elif (path / "tekken.json").is_file():
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    Tekkenizer.from_file(path / "tekken.json")
elif (path / "merges.txt").is_file():
    from tokenizers.models import BPE
    BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt"))
else:
    import sentencepiece
    model = next(path.glob("*.model*"))
    sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes())
"""
ADD = """
import sys
from planner.cli.main import run
code = run(["bundle", "add", sys.argv[1], "--id", "m", "--json"])
print("transformers" in sys.modules, file=sys.stderr)
sys.exit(code)
"""


def spent(program: str, path: Path, home: str) -> tuple[float, subprocess.CompletedProcess[bytes]]:
    """Run a program on a model and return its CPU seconds, those of its own children included."""
    names = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME", "LOCALAPPDATA")
    environment = {**os.environ, **dict.fromkeys(names, home), "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, check=False, env=environment, cwd=ROOT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done


def measured(path: Path) -> dict[str, Any]:
    """Measure one model; `result` is that of the command, or its line where it is refused."""
    with tempfile.TemporaryDirectory() as home:
        load_seconds, loaded = spent(LOAD, path, home)
        add_seconds, added = spent(ADD, path, home)
    *talk, transformers = added.stderr.decode().splitlines() or [""]
    row: dict[str, Any] = {"model": path.name, "load_cpu_s": round(load_seconds, 3), "add_cpu_s": round(add_seconds, 3)}
    if added.returncode:
        return row | {"result": (talk or [transformers])[0], "within": None}
    bound = FACTOR * load_seconds + SLACK_SECONDS
    return row | {
        "format": json.loads(added.stdout)["tokenizerFormat"],
        "bound_cpu_s": round(bound, 3),
        "result": "added",
        "within": loaded.returncode == 0 and add_seconds <= bound,
        "imports_transformers": transformers == "True",
    }


def models(roots: list[Path]) -> Iterator[Path]:
    """Yield model folders and files below the roots."""
    for root in roots:
        for path in sorted(root.iterdir()):
            files = [path] if path.is_file() else sorted(path.iterdir())
            whole = [one for one in files if one.suffix in (".gguf", ".litertlm")]
            yield from whole
            if path.is_dir() and not whole and any(_is_tokenizer(one.name) for one in files):
                yield path


def _is_tokenizer(name: str) -> bool:
    return name in ("tokenizer.json", "tekken.json", "merges.txt") or ".model" in name


def main() -> int:
    """Measure every model and print one JSON object."""
    parser = argparse.ArgumentParser(description="bundle add against loading the tokenizer.")
    parser.add_argument("folder", type=Path, nargs="*")
    parser.add_argument("--only", nargs="*", default=None, metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    chosen = parser.parse_args()
    roots = chosen.folder or [path for path in (ROOT / ".cache" / "bundles", ROOT / ".cache" / "gguf") if path.is_dir()]
    found: dict[str, Path] = {}
    for path in models(roots):
        if chosen.only is None or path.name in chosen.only:
            found.setdefault(path.name, path)
    rows = [measured(path) for path in found.values()]
    judged = [row for row in rows if row["within"] is not None]
    out = {
        "bound": f"{FACTOR:g} x loading + {SLACK_SECONDS:g} s",
        "models": rows,
        "worst_share_of_bound": max((row["add_cpu_s"] / row["bound_cpu_s"] for row in judged), default=0.0),
        "all_within": all(row["within"] and not row["imports_transformers"] for row in judged),
    }
    text = json.dumps(out, indent=1)
    print(text)
    if chosen.json is not None:
        chosen.json.write_text(text + "\n", encoding="utf-8")
    return 0 if out["all_within"] else 1


if __name__ == "__main__":
    sys.exit(main())
