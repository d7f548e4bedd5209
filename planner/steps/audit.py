"""Every 64th plan is done again by slower, independent ways and compared (design.md §4.1, §4.4, §4.8)."""

from __future__ import annotations

from dataclasses import replace

from planner.encoding.skeleton import control_ids, inert_wrap
from planner.steps.frame import Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.measure import Measured, Measurer
from planner.values.reasons import RefusalSignal


def audit(measured: Measured, measurer: Measurer) -> Measured:
    """Compare a plan's rung with its certified, plainly rendered and inert twins; return what may be used.

    A spliced rung that differs from the certified one switches splicing off for the bundle and is replaced.
    Refuses attribution_lost where the tracked render is not the plain one, control_token_forged where
    content changed the control ids.
    """
    if measured.encoding is None or measured.encoding.assembled is None or measured.problem is not None:
        return measured
    whole = measured
    if measured.encoding.rendered is None:
        whole = measurer.certified(measured.selection, kind="audit_renders")
        if whole.problem is not None or whole.encoding is None or whole.encoding.assembled is None:
            measurer.encoder.splicing = False
            return whole
        if whole.encoding.assembled.ids != measured.encoding.assembled.ids:
            measurer.encoder.splicing = False
            measurer.counters.speed = "certified"
            measured = whole
    _compare_plain(whole, measurer)
    _compare_skeleton(whole, measurer)
    return measured


def _compare_plain(whole: Measured, measurer: Measurer) -> None:
    if whole.framed is None or whole.encoding is None or whole.encoding.rendered is None:
        return
    if measurer.encoder.plain(whole.framed.inputs, measurer.counters) != whole.encoding.rendered.text:
        raise RefusalSignal("attribution_lost", "the tracked render differs from the plain one")


def _compare_skeleton(whole: Measured, measurer: Measurer) -> None:
    if whole.encoding is None or whole.encoding.assembled is None:
        return
    encoder, framer = measurer.encoder, measurer.framer
    framing = replace(framer.framing, wrap=inert_wrap(encoder.bundle.profile))
    twin = Framer(measurer.layered, framing, framer.options, framer.now, {}, FixedParts())
    inputs = replace(twin.frame(whole.selection).inputs, leaves=())
    encoding = encoder.certified(inputs, measurer.counters, kind="audit_renders")
    if encoding.assembled is None:
        return
    ours = control_ids(whole.encoding.assembled.ids, encoder.guards)
    if ours != control_ids(encoding.assembled.ids, encoder.guards):
        raise RefusalSignal("control_token_forged", "control ids differ from those of an inert twin")
