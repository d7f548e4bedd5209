"""Bytes of the attention cache against figures that a runtime's log printed, and against a slow count."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.bundles.open import open_bundle
from planner.cli import bundle_fit
from planner.values import device, kv_cache
from planner.values.bundle import KvGeometry
from planner.values.kv_cache import CACHE_TYPES, CacheRule, kv_bytes, window_for
from planner.values.reasons import RefusalSignal
from tests.oracles.cache_bytes import cache_bytes, largest_window

MIB = 2**20
F16, Q8 = CacheRule(), CacheRule("q8_0", "q8_0")


def plain(layers: int, heads: int, length: int) -> KvGeometry:
    """A model whose layers are all alike."""
    return KvGeometry(layers, (heads,) * layers, length, length, None, None, length, length)


GEMMA = KvGeometry(26, (1,) * 26, 256, 256, 512, tuple((n + 1) % 6 != 0 for n in range(26)), 256, 256)


@pytest.mark.parametrize(
    ("mib", "kv", "rule"),
    [
        (64.00, plain(4, 8, 128), F16),
        (34.00, plain(4, 8, 128), Q8),
        (448, plain(28, 8, 128), F16),
        (238, plain(28, 8, 128), Q8),
        (128, plain(16, 8, 64), F16),
        (68, plain(16, 8, 64), Q8),
    ],
)
def test_a_window_of_4096_takes_what_the_log_says(mib: float, kv: KvGeometry, rule: CacheRule) -> None:
    """The rows of facts-runtimes.md §6; the first two were printed by a server."""
    assert mib == kv_bytes(kv, 4096, rule).total / MIB


def test_local_layers_keep_their_window_and_one_step() -> None:
    """16 + 22 MiB as the server printed for this shape, 16 + 88 where local layers keep everything."""
    kept, everything = kv_bytes(GEMMA, 4096), kv_bytes(GEMMA, 4096, CacheRule(full_local=True))
    assert (16.0, 22.0) == (kept.full / MIB, kept.local / MIB)
    assert (16.0, 88.0) == (everything.full / MIB, everything.local / MIB)
    assert (4096, 22_528) == (kv_bytes(GEMMA, 1).full, kv_bytes(GEMMA, 256).local // 256)


def test_bytes_of_one_token() -> None:
    """114,688 and 32,768 bytes a token, twice that in two slots."""
    assert (114_688, 32_768) == (kv_bytes(plain(28, 8, 128), 1).total, kv_bytes(plain(16, 8, 64), 1).total)
    assert 229_376 == kv_bytes(plain(28, 8, 128), 1, CacheRule(slots=2)).total


def test_the_last_shared_layers_keep_nothing() -> None:
    """Sharing half of the layers halves the cache."""
    whole = plain(4, 8, 128)
    shared = KvGeometry(4, (8,) * 4, 128, 128, None, None, 128, 128, shared_layers=2)
    assert kv_bytes(whole, 100).total == 2 * kv_bytes(shared, 100).total


@st.composite
def geometries(draw: st.DrawFn) -> KvGeometry:
    """Models of a few layers: grouped heads, local layers with lengths of their own, shared and stateful ones."""
    layers = draw(st.integers(1, 6))
    heads = draw(st.lists(st.sampled_from((0, 1, 2, 8)), min_size=layers, max_size=layers))
    window = draw(st.none() | st.integers(1, 1200))
    local = draw(st.none() | st.lists(st.booleans(), min_size=layers, max_size=layers))
    lengths = [draw(st.sampled_from((32, 64, 128))) for _ in range(4)]
    return KvGeometry(
        layers, tuple(heads), lengths[0], lengths[1], window, None if local is None else tuple(local),
        lengths[2], lengths[3], draw(st.integers(0, layers)),
    )  # fmt: skip


RULES = st.builds(
    CacheRule, st.sampled_from(sorted(CACHE_TYPES)), st.sampled_from(sorted(CACHE_TYPES)), st.integers(1, 3),
    st.booleans(), st.sampled_from((64, 512)),
)  # fmt: skip


@given(kv=geometries(), rule=RULES, tokens=st.integers(0, 3000))
def test_bytes_equal_a_count_layer_by_layer(kv: KvGeometry, rule: CacheRule, tokens: int) -> None:
    """Whatever the mixture of layers and element types."""
    assert cache_bytes(kv, tokens, rule) == kv_bytes(kv, tokens, rule).total


@given(kv=geometries(), rule=RULES, share=st.integers(0, 120))
def test_the_usable_window_is_the_largest_that_fits(kv: KvGeometry, rule: CacheRule, share: int) -> None:
    """Halving towards the border finds what trying every window finds."""
    context = 900
    room = int(cache_bytes(kv, context, rule)) * share // 100
    assume(share <= 100 or room)
    assert largest_window(kv, room, context, rule) == window_for(kv, room, context, rule)


def test_a_type_whose_blocks_do_not_suit_the_model_is_refused() -> None:
    """No runtime can hold half a block; the nearest legal type is f16."""
    odd = plain(2, 1, 80)
    with pytest.raises(RefusalSignal, match=r"invalid-input: \$\.cache: 80 elements"):
        kv_bytes(odd, 10, Q8)
    assert 2 * 10 * 160 * 2 == kv_bytes(odd, 10).total


def test_the_shipped_manifests_state_what_their_publishers_do() -> None:
    """112 KiB a token for the default bundle; figures of the cache change no digest, so no count is lost."""
    kv = open_bundle("qwen3-0.6b").manifest.kv
    assert kv is not None
    assert 112 * 1024 == kv_bytes(kv, 1).total


@pytest.mark.parametrize("module", [kv_cache, device, bundle_fit])
def test_examples_of_the_modules_hold(module: object) -> None:
    """Each docstring's example is run."""
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert (True, 0) == (found.attempted > 0, found.failed)
