"""Names from outside, for a line, a page or a table: what is not printable is written as an escape."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text whose control, format and unassigned characters are backslash escapes; words of any script stay.

    >>> print(printable("电梯 3\x1b[2J\n\u202e"))
    电梯 3\x1b[2J\n\u202e
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
