"""The npm engine for our own tests: one pinned package, its integrity checked, unpacked below .cache."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

NAME, VERSION = "@huggingface/jinja", "0.5.11"
INTEGRITY = "sha512-YzEzwM5oQf4r0vs7ifWQ+yuVR1YkAHrjERQ+a8WRsStHHp4NRBg+NesjiFc+X2AFUpRvvrIeHDS1xFy9jY/IjQ=="
FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "npm"


def absence() -> str | None:
    """Say why the engine cannot be had here, None where it is ready below FOLDER; fetches it at first."""
    if shutil.which("node") is None:
        return "node is not installed"
    target = FOLDER / "node_modules" / Path(NAME)
    if (target / "package.json").is_file():
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"{NAME}@{VERSION}", "--pack-destination", str(FOLDER), "--silent", "--fetch-retries", "0"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=FOLDER)
    except subprocess.TimeoutExpired:
        return "npm did not answer"
    packed = FOLDER / f"huggingface-jinja-{VERSION}.tgz"
    if done.returncode != 0 or not packed.is_file():
        return "npm could not fetch the package"
    data = packed.read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    assert found == INTEGRITY, "the package is not the one that was pinned"
    part = target.with_name("part")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(part, filter="data")
    (part / "package").replace(target)
    shutil.rmtree(part)
    return None
