"""A begin token that the runtime puts before every prompt itself: it then stands in every plan, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_BEGIN = "{{ bos_token }}"


def with_begin(template: str, variables: Mapping[str, str], cache_dir: Path | None) -> tuple[str, tuple[str, ...]]:
    """Put `bos_token` in front where the template writes none; the second value is a warning that says so.

    The runtime adds the token where the text does not begin with it; so it stands there once, whoever writes it.
    Raises what measuring the template raises.
    """
    if "bos_token" in template or variables["bos_token"] in template:
        from planner.bundles.probe import profile_for

        if profile_for(template, dict(variables), cache_dir=cache_dir).writes_bos:
            return template, ()
    return _BEGIN + template, ("the template writes no begin token and the file asks for one; it is put in front",)
