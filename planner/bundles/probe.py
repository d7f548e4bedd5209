"""The template probe: runs `measure` where a hostile template cannot do harm, and remembers the answer.

An unreviewed template is parsed, compiled and rendered only in a subprocess with limits on processor time,
memory, wall time, files and environment (threats.md §2.5). What comes back is read as data from an untrusted
writer: a strict profile, or one of a closed set of verdicts.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.bundles.kept import keep, read_kept
from planner.bundles.profile_json import ProfileFormatError, profile_from_json, profile_to_json
from planner.values.profile import TemplateProfile
from planner.values.reasons import PlannerFault

PROBE_VERSION = "3"
"""Raised with every change of what a measurement means: kept answers of another version are not read."""
WALL_SECONDS = 5.0
LIMITS = {"RLIMIT_CPU": 2, "RLIMIT_AS": 512 << 20, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": 16, "RLIMIT_CORE": 0}
MAX_TEMPLATE_CHARACTERS = 1 << 20
_MAX_ANSWER_BYTES = 8 << 20
_VERDICTS = frozenset({"template_rejected", "template_content_dependent"})

# The limits come first, before a byte of the job is read; `resource` is absent where POSIX is.
_CHILD = """
import sys
limits = eval(sys.argv[1])
try:
    import resource
except ImportError:
    resource = None
if resource is not None:
    for name, most in limits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            try:
                resource.setrlimit(kind, (most, most))
            except (ValueError, OSError):
                pass
import json
job = json.loads(sys.stdin.buffer.read())
sys.path[:] = job["path"]
from planner.bundles.probe import answer
sys.stdout.buffer.write(answer(job["source"], job["strings"]))
"""

_memory: dict[str, TemplateProfile | PlannerFault] = {}
_MEMORY_ENTRIES = 256


def profile_for(
    source: str, strings: Mapping[str, str], *, cache_dir: Path | None = None, trusted: bool = False
) -> TemplateProfile:
    """Return the measured profile of a template.

    source     the template's text; strings are the bundle's bos_token and the like
    cache_dir  where answers are kept by digest of (source, strings, probe version); None keeps none on disk
    trusted    the template's digest stands in a shipped certificate: measured in this process, no limits

    Raises PlannerFault template_rejected for a template that is not valid, not safe, or did not end within
    the limits, and template_content_dependent (R188). No message holds text of the template.
    """
    key = probe_key(source, strings)
    known = _memory.get(key)
    if known is None:
        known = _read_cache(cache_dir, key)
    if known is None:
        known = _probe(source, strings, trusted=trusted)
        if isinstance(known, TemplateProfile):
            keep(cache_dir, key, profile_to_json(known))
    if isinstance(known, PlannerFault) and known.code == "environment":
        raise known
    if len(_memory) >= _MEMORY_ENTRIES:
        _memory.clear()
    _memory[key] = known
    if isinstance(known, PlannerFault):
        raise PlannerFault(known.code, known.detail)
    return known


def probe_key(source: str, strings: Mapping[str, str]) -> str:
    """Return the digest an answer is kept under: everything it depends on, the probe's version included."""
    job = json.dumps([PROBE_VERSION, source, dict(sorted(strings.items()))])
    return hashlib.sha256(job.encode()).hexdigest()


def _probe(source: str, strings: Mapping[str, str], *, trusted: bool) -> TemplateProfile | PlannerFault:
    if len(source) > MAX_TEMPLATE_CHARACTERS:
        return PlannerFault("template_rejected", "it is larger than any template")
    if trusted:
        return _decode(answer(source, strings))
    return _limited(source, strings)


def answer(source: str, strings: Mapping[str, str]) -> bytes:
    """Measure in this process and return the answer as JSON: the probe process's whole work."""
    from planner.bundles.measure import measure

    try:
        reply: dict[str, Any] = {"profile": profile_to_json(measure(source, strings))}
    except PlannerFault as fault:
        reply = {"fault": [fault.code, fault.detail]}
    except MemoryError:
        reply = {"fault": ["template_rejected", "it runs out of memory"]}
    return json.dumps(reply).encode()


def _limited(source: str, strings: Mapping[str, str]) -> TemplateProfile | PlannerFault:
    job = json.dumps({"path": [entry for entry in sys.path if entry], "source": source, "strings": dict(strings)})
    # Windows starts no interpreter without this one variable; everywhere else nothing is inherited.
    environment = {key: os.environ[key] for key in ("SYSTEMROOT",) if key in os.environ}
    command = [sys.executable, "-I", "-B", "-X", "utf8", "-c", _CHILD, repr(LIMITS)]
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter on our own code
            command,
            input=job.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return PlannerFault("template_rejected", f"the probe did not end within {WALL_SECONDS:g} seconds")
    except OSError:
        return PlannerFault("environment", "the probe process could not be started")
    if child.returncode != 0 or len(child.stdout) > _MAX_ANSWER_BYTES:
        return PlannerFault("template_rejected", "the probe ended at a limit of processor time or memory")
    return _decode(child.stdout)


def _decode(reply: bytes) -> TemplateProfile | PlannerFault:
    try:
        value = json.loads(reply)
        if isinstance(value, dict) and set(value) == {"profile"}:
            return profile_from_json(value["profile"])
        code, detail = value["fault"]
    except (ValueError, KeyError, TypeError, RecursionError, ProfileFormatError):
        return PlannerFault("template_rejected", "the probe gave no valid answer")
    if code in _VERDICTS and isinstance(detail, str) and detail in _details():
        return PlannerFault(code, detail)
    return PlannerFault("template_rejected", "the probe gave no valid answer")


def _details() -> frozenset[str]:
    from planner.bundles.verdicts import DETAILS

    return DETAILS


def _read_cache(cache_dir: Path | None, key: str) -> TemplateProfile | None:
    with suppress(ProfileFormatError):
        return profile_from_json(read_kept(cache_dir, key))
    return None
