"""`planner bundle fit` and the estimates behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.bundle import KvGeometry, Tier
from planner.values.device import (
    DEVICES,
    LOCAL_UNKNOWN,
    STATE_LAYERS,
    DeviceProfile,
    check_device,
    device_fit,
    prefill_mj,
    prefill_ms,
)
from planner.values.kv_cache import CacheRule
from planner.values.reasons import RefusalSignal
from tests.cli.support import planner

PLAIN = KvGeometry(28, (8,) * 28, 128, 128, None, None, 128, 128)
MIB = 2**20
SPEEDS = st.floats(0.1, 10_000, allow_nan=False)


def test_three_classes_are_shipped() -> None:
    """20, 130 and 550 tokens a second lie in the interval of the class they name."""
    for name in ("20", "130", "550"):
        slow, fast = DEVICES[name].prefill_tokens_per_second
        assert slow <= float(name) <= fast
        assert check_device(DEVICES[name]) is DEVICES[name]
        assert DEVICES[name].power_watts is None


def test_a_refill_takes_what_the_field_notes_say() -> None:
    """3,000 tokens: 150, 23 and 5.5 seconds lie in the intervals of the three classes."""
    for name, seconds in (("20", 150), ("130", 23), ("550", 5.5)):
        least, most = prefill_ms(DEVICES[name], 3000)
        assert least <= seconds * 1000 <= most


@given(slow=SPEEDS, more=st.floats(1, 10), watts=st.floats(0.1, 20), tokens=st.integers(0, 100_000))
def test_intervals_hold_both_ends_and_are_never_turned(slow: float, more: float, watts: float, tokens: int) -> None:
    """Rounding goes outwards; energy is power times time."""
    device = DeviceProfile("d", (slow, slow * more), (watts, 2 * watts))
    least, most = prefill_ms(device, tokens)
    assert least <= 1000 * tokens / (slow * more) + 1e-6
    assert most >= 1000 * tokens / slow - 1e-6
    energy = prefill_mj(device, tokens)
    assert energy is not None
    assert energy[0] <= 1000 * tokens / (slow * more) * watts + 1e-6
    assert energy[1] >= 1000 * tokens / slow * 2 * watts - 1e-6
    assert 0 <= least <= most
    assert 0 <= energy[0] <= energy[1]


@pytest.mark.parametrize(
    ("device", "path"),
    [
        (DeviceProfile("two words", (1.0, 2.0)), "$.id"),
        (DeviceProfile("d", (2.0, 1.0)), "$.prefillTokensPerSecond"),
        (DeviceProfile("d", (0.0, 1.0)), "$.prefillTokensPerSecond"),
        (DeviceProfile("d", (1.0, 2.0), (3.0, float("inf"))), "$.powerWatts"),
    ],
)
def test_a_profile_without_sense_is_refused(device: DeviceProfile, path: str) -> None:
    """The field is named, its value is not."""
    with pytest.raises(RefusalSignal) as caught:
        check_device(device)
    assert caught.value.detail.startswith(f"{path}: ")


def test_what_limits_the_window_is_said() -> None:
    """Memory, the context, or neither where the bundle states none and layers keep nothing per token."""
    tiers = (Tier("4k", 4096), Tier("8k", 8192))
    small = device_fit(PLAIN, 40_960, tiers, 448 * MIB, CacheRule())
    assert (4096, "memory", [True, True, False]) == (
        small.usable_tokens,
        small.limited_by,
        [r.fits for r in small.rows],
    )
    assert "context" == device_fit(PLAIN, 4096, (), 448 * MIB, CacheRule()).limited_by
    stateful = KvGeometry(1, (0,), 8, 8, None, None, 8, 8)
    found = device_fit(stateful, None, (), 0, CacheRule())
    assert ("nothing_known", (STATE_LAYERS,)) == (found.limited_by, found.notes)
    unknown = KvGeometry(1, (1,), 8, 8, 512, None, 8, 8)
    assert (LOCAL_UNKNOWN,) == device_fit(unknown, 100, (), 0, CacheRule()).notes


def test_a_bundle_without_figures_is_refused_by_name() -> None:
    """One line, exit 2, and what would help stands in the table of codes."""
    done = planner("bundle", "fit", "reference", "--ram", "1GiB")
    assert (2, b"") == (done.code, done.out)
    assert "context plan rejected: geometry_unknown: bundle reference states neither layers nor heads\n" == done.err


def test_fit_is_an_estimate_and_never_a_gate(tmp_path: Path) -> None:
    """Nothing fits into a byte, and the exit code is 0 all the same; the figures say that they are estimates."""
    done = planner("bundle", "fit", "qwen3-0.6b", "--ram", "1B", "--json")
    assert (0, True, 0) == (done.code, done.json["estimate"], done.json["usableTokens"])
    profile = tmp_path / "mine.json"
    mine = {"schemaVersion": "1.0", "id": "mine", "prefillTokensPerSecond": [100, 200], "powerWatts": [2, 4.5]}
    profile.write_text(json.dumps(mine), encoding="utf-8")
    shown = planner("bundle", "fit", "qwen3-0.6b", "--ram", "1.5GiB", "--weights", "512MiB", "--device", profile,
                    "--cache", "q8_0,f16", "--slots", "2", "--json").json  # fmt: skip
    assert 1024 * MIB == shown["cacheBytes"]
    by_name = {row["name"]: row for row in shown["rows"]}
    cache = 2 * 4096 * 28 * (8 * 128 * 34 // 32 + 8 * 128 * 2)
    assert (cache, [20_480, 40_960], [40_960, 184_320]) == (
        by_name["4k"]["cache"]["full"], by_name["4k"]["prefillMs"], by_name["4k"]["prefillMj"],
    )  # fmt: skip
    text = planner("bundle", "fit", "qwen3-0.6b", "--ram", "3GiB", "--device", "130").text
    assert "estimate, not measured on a device" in text
    assert "not stated" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ram", "three"), "--ram is no size"),
        (("--ram", "1GiB", "--cache", "q9"), "--cache takes one or two of"),
        (("--ram", "1GiB", "--cache", "f16,f16,f16"), "--cache takes one or two of"),
        (("--ram", "1GiB", "--device", "600"), "--device is neither one of 20, 130, 550 nor a file"),
        (("--ram", "1GiB", "--device", __file__), "$: is not JSON"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(options: tuple[str, ...], says: str) -> None:
    """One line that names the option, exit 2."""
    done = planner("bundle", "fit", "qwen3-0.6b", *options)
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert says in done.err
