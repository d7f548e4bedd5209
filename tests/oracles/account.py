"""The sum of an account's input fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

INPUT_FIELDS = (
    "policyTokens", "toolTokens", "requestTokens", "historyTokens", "retrievalTokens", "framingTokens",
)  # fmt: skip


def faults(account: Mapping[str, object], ids: Sequence[int], *, margin_tokens: int, input_limit: int) -> list[str]:
    """List what is wrong with an account as it is written on the wire; an empty list if nothing is.

    >>> fields = dict.fromkeys(INPUT_FIELDS, 1)
    >>> faults({**fields, "reservedOutputTokens": 2}, range(6), margin_tokens=1, input_limit=9)
    []
    """
    found = []
    for name in (*INPUT_FIELDS, "reservedOutputTokens"):
        value = account.get(name)
        if type(value) is not int or value < 0:
            found.append(f"{name} is not a whole number of tokens")
    if found:
        return found
    total = sum(int(str(account[name])) for name in INPUT_FIELDS)
    if total != len(ids):
        found.append(f"the six fields sum to {total}, the prompt has {len(ids)} ids")
    if total + int(str(account["reservedOutputTokens"])) + margin_tokens > input_limit:
        found.append("the prompt leaves less room than the reserve and the margin")
    return found
