"""Our validator beside the published script, which is cut out of its source document when the test runs."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from planner.gate.plan_file import judge_bytes, judge_path
from tests.gate.plan_files import SOUND, Script, dumped, mutate

MUTATIONS = 10_000


@pytest.fixture(scope="module")
def script(shared_dir: Path) -> Script:
    """The published script."""
    return Script(shared_dir)


def test_validator_same_message_whenever_script_rejects(script: Script, tmp_path: Path, seed: int) -> None:
    """10,000 mutated files: compat is the script where it ends by itself, strict never changes its rejections (X67)."""
    chance = random.Random(seed)
    path = tmp_path / "plan.json"
    ends = {"accepted": 0, "rejected": 0, "crashed": 0, "stricter": 0}
    for _ in range(MUTATIONS):
        data = dumped(mutate(chance))
        path.write_bytes(data)
        code, out, err = script.run(str(path))
        compat, strict = judge_bytes(data, compat=True), judge_bytes(data)
        if code == 0:
            ends["accepted"] += 1
            ends["stricter"] += strict.message is not None
            assert out == compat.line + "\n", data
        elif code == 2:
            ends["rejected"] += 1
            assert err == compat.line + "\n" == strict.line + "\n", data
        else:
            ends["crashed"] += 1
            assert None not in (compat.message, strict.message), data
    print(ends)
    assert min(ends.values()) > 300, ends


def test_R200_validator_never_tracebacks(seed: int) -> None:
    """10,000 files broken as bytes, each one line of ours: no exception leaves."""
    chance = random.Random(seed)
    sound = bytearray(json.dumps(SOUND).encode())
    lines = set()
    for _ in range(MUTATIONS):
        data = bytearray(sound)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[place] = chance.randrange(256)
            else:
                del data[place : place + chance.randint(1, 20)]
        line = judge_bytes(bytes(data)).line
        assert line.startswith(("context plan rejected: ", "context plan accepted: ")), data
        assert "\n" not in line
        lines.add(line.split(":")[1].strip())
    assert len(lines) > 8, lines


def test_R202_validator_extras_never_change_script_message(script: Script, tmp_path: Path) -> None:
    """A file that breaks a row of the script and a rule of ours gets the script's words."""
    path = tmp_path / "plan.json"
    both = json.loads(json.dumps(SOUND))
    both["generation"] = "three"
    both["items"][1]["tokens"] = 900
    path.write_bytes(dumped(both))
    assert script.run(str(path))[2] == judge_path(path).line + "\n"


def test_the_script_and_we_read_files_alike(script: Script, tmp_path: Path) -> None:
    """Line ends, a byte order mark, an empty file, a folder, no file and wrong arguments."""
    path = tmp_path / "plan.json"
    for data in (b"", b"\xef\xbb\xbf{}", b"{\r\n\r\n", b"{\n\n", b"[1,\r2,", b"{} x", b'"\t"'):
        path.write_bytes(data)
        assert script.run(str(path))[2] == judge_path(path, compat=True).line + os.linesep
    for name in (tmp_path, tmp_path / "none"):
        assert script.run(str(name))[2] == judge_path(name).line + "\n"
    assert (
        script.run()[2]
        == script.run("a", "b")[2]
        == "context plan rejected: usage: validate_context_plan.py plan.json\n"
    )
