"""Every broken request gives one clear line and no word of the input (R188, H07, H12, H22..H24, H26)."""

from __future__ import annotations

import traceback

import pytest

from planner.adapters.openai import request_from_chat
from planner.values.check import check_request
from planner.values.reasons import RefusalSignal
from planner.values.unsupported import check_supported
from planner.wire.chat import parse_chat
from planner.wire.parse import parse_request
from tests.bad_inputs.build import CANARY, BadInput, bad_inputs, good_inputs

LISTED = bad_inputs()


def read(entry: BadInput) -> None:
    """Do what the command does with a file before it plans."""
    if entry.kind == "chat":
        chat = parse_chat(entry.data)
        request = request_from_chat(chat.messages, chat.tools, model_bundle_id="reference")
    else:
        request = parse_request(entry.data)
    check_request(request)
    check_supported(request)


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry.name)
def test_a_broken_request_is_one_clear_line(entry: BadInput) -> None:
    """Code and place are the expected ones; the canary is in nothing that could be printed or logged."""
    with pytest.raises(RefusalSignal) as caught:
        read(entry)
    error = caught.value
    assert error.reason == entry.code
    assert error.detail.startswith(entry.path)
    assert "\n" not in str(error)
    assert len(str(error)) < 200
    assert CANARY not in "".join(traceback.format_exception_only(error)) + repr(error.args)
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("entry", good_inputs(), ids=lambda entry: entry.name)
def test_the_documents_they_start_from_are_in_order(entry: BadInput) -> None:
    """So that each entry is broken by its own change and nothing else."""
    assert CANARY.encode() in entry.data
    read(entry)


def test_the_list_is_long_enough_and_names_are_unique() -> None:
    """Thirty broken requests at least."""
    assert len(LISTED) >= 30
    assert len({entry.name for entry in LISTED}) == len(LISTED)
