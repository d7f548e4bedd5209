"""Every 64th plan is done again by slower, independent ways and compared (design.md §4.1, §4.4, §4.8)."""

from __future__ import annotations

from dataclasses import replace

from planner.encoding.encoder import Encoding
from planner.encoding.skeleton import control_ids, inert_wrap
from planner.steps.frame import Framed, Framer
from planner.steps.frame_fixed import FixedParts
from planner.steps.measure import Measured, Measurer
from planner.values.reasons import RefusalSignal


def audit(measured: Measured, measurer: Measurer) -> bool:
    """Compare a plan's rung with its twins: every run encoded anew, rendered plainly, with inert content.

    Returns False where the ids are others than with nothing remembered: whatever was remembered is dropped
    (no ids of old turns are used for this bundle any more) and the plan must be made again.
    Refuses attribution_lost where the tracked render is not the plain one, control_token_forged where
    content changed the control ids.
    """
    if measured.encoding is None or measured.encoding.assembled is None or measured.problem is not None:
        return True
    encoder = measurer.encoder
    framed = measurer.framer.frame(measured.selection)
    again = encoder.afresh(framed.inputs, measurer.counters)
    ids = None if again.lost or again.assembled is None else again.assembled.ids
    if ids != measured.encoding.assembled.ids:
        measurer.counters.audit_differences += 1
        encoder.forget()
        if measured.encoding.rendered is None:
            encoder.splicing = False
        return False
    _compare_plain(framed, again, measurer)
    _compare_skeleton(measured, again, measurer)
    return True


def _compare_plain(framed: Framed, again: Encoding, measurer: Measurer) -> None:
    if again.rendered is None:
        return
    if measurer.encoder.plain(framed.inputs, measurer.counters) != again.rendered.text:
        raise RefusalSignal("attribution_lost", "the tracked render differs from the plain one")


def _compare_skeleton(measured: Measured, again: Encoding, measurer: Measurer) -> None:
    if again.assembled is None or again.assembled.obeyed is not None:  # the latter is not handed out
        return
    encoder, framer = measurer.encoder, measurer.framer
    framing = replace(framer.framing, wrap=inert_wrap(encoder.bundle.profile))
    twin = Framer(measurer.layered, framing, framer.options, framer.now, {}, FixedParts())
    inputs = replace(twin.frame(measured.selection).inputs, leaves=())
    if encoder.whole:  # such a tokenizer may read a control string as text, so only its own ids can tell
        encoded = encoder.afresh(inputs, measurer.counters).assembled
        inert = None if encoded is None else control_ids(encoded.ids, encoder.guards)
    else:
        inert = encoder.controls(inputs, measurer.counters)
    if inert is not None and control_ids(again.assembled.ids, encoder.guards) != inert:
        raise RefusalSignal("control_token_forged", "control ids differ from those of an inert twin")
