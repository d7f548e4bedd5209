"""The record of a bundle's activated templates: one JSON file beside the user's bundles, and one file a template.

`<user folder>/<bundle id>/activation.json` and `activated/<sha256>.jinja` there; a shipped bundle's own files are
never touched. Writing is the command's; this module says what is written and reads it back strictly.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from planner.bundles.fields import (
    Fields,
    invalid,
    matching,
    no_constant,
    no_twins,
    one_of,
    read_count,
    read_flag,
    read_list,
    read_text,
)
from planner.bundles.files import MAX_TEMPLATE_BYTES, MIB, FolderFiles, holds_half
from planner.values.activation import AuditRow, TemplateState, TemplateVersion
from planner.values.bundle import ControlToken
from planner.values.field_rules import VERSION_PATTERN

SCHEMA_VERSION = "1.0"
STATE_FILE = "activation.json"
TEMPLATE_FOLDER = "activated"
ACTIONS = ("activate", "refuse", "rollback")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(VERSION_PATTERN)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def template_name(sha256: str) -> str:
    """Return the name of a template's file inside the bundle's folder of the user."""
    return f"{TEMPLATE_FOLDER}/{sha256}.jinja"


def read_state(folder: Path) -> TemplateState | None:
    """Return the record of a bundle's folder, None where there is none.

    Raises PlannerFault manifest_invalid where it is damaged, and what reading raises.
    """
    if not (folder / STATE_FILE).exists():
        return None
    return parse_state(FolderFiles(folder).read(STATE_FILE, MIB))


def read_template(folder: Path, sha256: str) -> bytes:
    """Return the bytes of a kept template; whether they are the right ones is for the caller to judge."""
    return FolderFiles(folder).read(template_name(sha256), MAX_TEMPLATE_BYTES)


def parse_state(data: bytes) -> TemplateState:
    """Parse a record. Raises manifest_invalid with the JSON path of what is wrong, never its value."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=no_twins, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise invalid("$", "is no JSON, or has a key twice") from None
    if holds_half(data, value):
        raise invalid("$", "holds half of a character")
    top = Fields(value, "$")
    if top.take("schemaVersion", read_text) != SCHEMA_VERSION:
        raise invalid("$.schemaVersion", f"must be {SCHEMA_VERSION}")
    state = TemplateState(
        model_bundle_id=top.take("modelBundleId", matching(_ID)),
        base_digest=top.take("baseDigest", matching(_SHA256)),
        active=top.take("active", _template, None),
        previous=top.take("previous", _template, None),
        can_step_back=top.take("canStepBack", read_flag),
        audit=tuple(top.take("audit", lambda rows, at: read_list(rows, at, _row))),
    )
    top.close()
    return state


def dump_state(state: TemplateState) -> bytes:
    """Return a record as JSON; `parse_state` gives the same value back."""
    value = {
        "schemaVersion": SCHEMA_VERSION,
        "modelBundleId": state.model_bundle_id,
        "baseDigest": state.base_digest,
        "active": _template_tree(state.active),
        "previous": _template_tree(state.previous),
        "canStepBack": state.can_step_back,
        "audit": [
            {
                "at": row.at,
                "action": row.action,
                "templateDigest": row.template_digest,
                "templateVersion": row.template_version,
                "appVersion": row.app_version,
                "findings": list(row.findings),
            }
            for row in state.audit
        ],
    }
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _template_tree(template: TemplateVersion | None) -> dict[str, Any] | None:
    if template is None:
        return None
    return {
        "sha256": template.sha256,
        "bundleDigest": template.bundle_digest,
        "entry": template.entry,
        "version": template.version,
        "minApp": template.min_app,
        "maxApp": template.max_app,
        "controlTokens": [
            {"id": one.id, "text": one.text, "lstrip": one.lstrip, "rstrip": one.rstrip}
            for one in template.control_tokens
        ],
    }


def _template(value: Any, path: str) -> TemplateVersion:
    row = Fields(value, path)
    template = TemplateVersion(
        sha256=row.take("sha256", matching(_SHA256)),
        bundle_digest=row.take("bundleDigest", matching(_SHA256)),
        entry=row.take("entry", matching(_VERSION)),
        version=row.take("version", matching(_VERSION), None),
        min_app=row.take("minApp", matching(_VERSION), None),
        max_app=row.take("maxApp", matching(_VERSION), None),
        control_tokens=tuple(row.take("controlTokens", lambda rows, at: read_list(rows, at, _control))),
    )
    row.close()
    return template


def _control(value: Any, path: str) -> ControlToken:
    row = Fields(value, path)
    text = row.take("text", _any_text)
    token = ControlToken(text, row.take("id", read_count), row.take("lstrip", read_flag), row.take("rstrip", read_flag))
    row.close()
    return token


def _any_text(value: Any, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(path, "must be a text")
    return value


def _row(value: Any, path: str) -> AuditRow:
    row = Fields(value, path)
    audit = AuditRow(
        at=row.take("at", read_text),
        action=row.take("action", one_of(ACTIONS)),
        template_digest=row.take("templateDigest", matching(_SHA256), None),
        template_version=row.take("templateVersion", matching(_VERSION), None),
        app_version=row.take("appVersion", matching(_VERSION), None),
        findings=tuple(row.take("findings", lambda rows, at: read_list(rows, at, read_text))),
    )
    row.close()
    return audit
