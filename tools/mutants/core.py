"""Mutants of the core: layers, counting, whole turns, receipts and refusals (issue A)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_LAYER, _RUNG, _ACCOUNT, _WINDOW = "steps/layer.py", "values/rung.py", "steps/account.py", "steps/window.py"
_TURN, _FRAME, _FIT, _SEAL = "values/check_turn.py", "steps/frame_turn.py", "steps/fit.py", "steps/seal.py"

MUTANTS = (
    Mutant(_RUNG, '"pinned_turn": "summarizable",', '"pinned_turn": "immutable",', "R19"),
    Mutant(
        _LAYER,
        'Block(f"scope/{item.id}", "immutable_policy")',
        'Block(f"scope/{item.id}", "summarizable")',
        "R19 R20",
    ),
    Mutant(
        "steps/frame.py",
        '            ("parameter", self.layered.request.required_parameters),\n',
        "",
        "R20",
    ),
    Mutant(_RUNG, "@dataclass(frozen=True, slots=True)\nclass Block:", "@dataclass(slots=True)\nclass Block:", "R21"),
    Mutant(_RUNG, "return LAYER_OF_KIND[self.kind]", 'return LAYER_OF_KIND.get(self.kind, "evictable")', "R21"),
    Mutant(
        "steps/ladder.py",
        "    last = [*behind, *map(shorter, forms.own),",
        '    spare = [Move("over_budget", (f"preference/{item.id}",)) for item in layered.preferences]\n'
        "    last = [*behind, *spare, *map(shorter, forms.own),",
        "R28",
    ),
    Mutant(
        "steps/overflow.py",
        "    if request_only.tokens > room:\n",
        "    if request_only.tokens > room + 1:\n",
        "R29_immutable",
    ),
    Mutant("steps/overflow.py", "    elif open_turn.tokens > room:\n", "    elif False:\n", "R29_finer"),
    Mutant(
        "steps/overflow.py",
        '        reason, found = "protected_history_overflow", last\n',
        '        reason, found = "raw_history_overflow", last\n',
        "R29_finer",
    ),
    Mutant(
        "encoding/runs.py",
        "encoded = self._bundle.engine.encode(text)",
        "encoded = self._bundle.engine.encode(text.strip())",
        "R31 R133_role",
    ),
    Mutant(
        "encoding/encoder.py",
        "return 0 if self.assembled is None else len(self.assembled.ids)",
        "return 0 if self.rendered is None else len(self.rendered.text) // 4",
        "R32 R38",
    ),
    Mutant(_ACCOUNT, "framing_tokens=total - sum(assembled.lines.values()),", "framing_tokens=0,", "R33 R36"),
    Mutant(
        "values/window.py",
        "return self.total - self.reserved - self.margin - self.overhead",
        "return self.total - self.reserved - self.overhead",
        "R34 R38",
    ),
    Mutant(
        "values/window.py",
        "return self.total - self.reserved - self.margin - self.overhead",
        "return self.total - self.margin - self.overhead",
        "R34 R38",
    ),
    Mutant(_WINDOW, "DEFAULT_RESERVED_TOKENS = 512", "DEFAULT_RESERVED_TOKENS = 0", "R34"),
    Mutant(
        "values/account.py",
        '(*INPUT_FIELDS[:5], "reserved_output_tokens", "framing_tokens")',
        '(*INPUT_FIELDS[:5], "reserved_output_tokens")',
        "R35",
    ),
    Mutant(_ACCOUNT, "else _FIELD_OF_SECTION[section]] += tokens", "else _FIELD_OF_SECTION[section]] = tokens", "R36"),
    Mutant(
        "values/account.py",
        "if type(value) is not int or value < 0:",
        "if value is None or value < 0:  # type: ignore[operator]",
        "R37_ledger",
    ),
    Mutant(
        "values/account.py",
        "if type(value) is not int or value < 0:",
        "if type(value) is not int or value <= 0:",
        "R37",
    ),
    Mutant(
        _FIT, "return Fitted(found, at, found.tokens <= room)", "return Fitted(found, at, found.tokens < room)", "R38"
    ),
    Mutant(
        "values/check_frame.py",
        "reserve is not None and limit <= reserve:",
        "reserve is not None and limit < reserve:",
        "R39_limits_must_be_valid",
    ),
    Mutant(
        "values/check_frame.py",
        "reserve is not None and limit <= reserve:",
        "reserve is not None and limit <= reserve + 1:",
        "R39_the_nearest",
    ),
    Mutant(
        "values/check_frame.py",
        "    if limit is not None and not is_whole(limit, 1):\n",
        "    if limit is not None and limit < 1:\n",
        "R39_limits_must_be_valid R39_limits_must_be_valid_when_planning",
    ),
    Mutant(_ACCOUNT, '"tool": "tool_tokens",', '"tool": "policy_tokens",', "R40 R33"),
    Mutant(
        _SEAL,
        "{PLANNER_VERSION}\\0{bundle}\\0{sealing.request_digest}",
        "{id(sealing)}\\0{bundle}\\0{sealing.request_digest}",
        "R44",
    ),
    Mutant(
        "encoding/assemble.py",
        'if owner is not None and owner.kind != "media":',
        'if owner is not None and owner.kind in ("call", "key"):',
        "R45",
    ),
    Mutant(_WINDOW, "total = min(limits)", "total = max(limits)", "R46_limit"),
    Mutant(
        _WINDOW,
        "            return tier.max_input_tokens\n",
        "            return max(one.max_input_tokens for one in manifest.tiers)\n",
        "R46",
    ),
    Mutant(_TURN, "    if waiting:\n", "    if False:\n", "R47 R51"),
    Mutant(_TURN, "if spoken and not answered:", "if False:", "R47"),
    Mutant(
        _FRAME,
        "messages = [message for message in self.turn.messages if message.accepted]",
        "messages = list(self.turn.messages)",
        "R47",
    ),
    Mutant(
        _FRAME, "            self.put(message, self.result(message))\n", "            pass\n", "R48 R51 R49 R133_role"
    ),
    Mutant(_FRAME, 'self.put(message, self.text_message(message, "user_text"))', "pass", "R50 R48"),
    Mutant(
        "pipeline.py",
        "fit(steps, layered, sizes, resolved.window.budget, measurer.measure",
        "fit(steps, layered, sizes, resolved.window.budget - 20, measurer.measure",
        "R49 R38",
    ),
    Mutant(
        "steps/recall.py",
        "ordered = sorted(request.turns, key=lambda turn: turn.sequence)",
        "ordered = sorted(request.turns, key=lambda turn: -turn.sequence)",
        "R52",
    ),
    Mutant("values/turn.py", '"cancelled": frozenset(),', '"cancelled": frozenset({"open"}),', "R56"),
    Mutant(
        "steps/recall.py",
        '        if turn.state in ("completed", "open"):\n',
        '        if turn.state != "superseded":\n',
        "R56",
    ),
    Mutant(
        "steps/frame_blocks.py",
        'STATE_OPEN, STATE_CLOSE = "[conversation state: written by the application]",',
        'STATE_OPEN, STATE_CLOSE = "<|system|>",',
        "R133_a_summary",
    ),
    Mutant("values/reasons.py", 'Code("stale-source", "refusal",', 'Code("stale_source", "refusal",', "R182"),
    Mutant(
        _SEAL,
        "receipt = replace(base_receipt(sealing, outcome_of(reason), reason), account=account)",
        "receipt = replace(base_receipt(sealing, outcome_of(reason), reason), account=account)\n"
        '    receipt = replace(receipt, kept=("request/q",))',
        "R184",
    ),
    Mutant(_SEAL, "policy_version=request.policy_version,", 'policy_version="",', "R185_receipt R185_every"),
    Mutant(_SEAL, "request_digest=sealing.request_digest,", "request_digest=None,", "R185_every"),
    Mutant(
        _SEAL, 'keyed_digest(sealing.digest_key, "\\0".join(parts))', 'digest("\\0".join(parts).encode())', "R185_item"
    ),
    Mutant(
        "wire/parse.py",
        "    request: PlanRequest = _validated(PlanRequest, data)\n",
        "    request: PlanRequest = replace(_validated(PlanRequest, data), summaries=())\n",
        "R216_structured_request_parts",
    ),
    Mutant(
        _LAYER,
        "passages=by_value(request.passages, request.request),",
        "passages=(),",
        "R216_structured_request_parts_are",
    ),
    Mutant(_LAYER, "summaries=history.summaries,", "summaries=(),", "R216_structured_request_parts_are"),
    Mutant("../pyproject.toml", '    "sentencepiece>=0.2",\n', "", "R219"),
    Mutant(_WINDOW, "    if total <= reserved:\n", "    if total < reserved:\n", "R39_a_context"),
    Mutant(
        _SEAL,
        "receipt = replace(base_receipt(sealing, outcome_of(reason), reason), account=account)",
        "receipt = replace(base_receipt(sealing, reason, reason), account=account)",
        "R185_every",
    ),
    Mutant(_RUNG, '    "required_request": "immutable",\n', '    "required_request": "evictable",\n', "R19 R20"),
    Mutant(
        "steps/overflow.py",
        "    droppable = smallest_drop(measurer, last, room)\n",
        "    droppable = ()\n",
        "R29_immutable",
    ),
    Mutant(_ACCOUNT, '"request": "request_tokens",', '"request": "history_tokens",', "R33"),
    Mutant(
        _ACCOUNT,
        "reserved_output_tokens=window.reserved,",
        "reserved_output_tokens=request.reserved_output_tokens or 0,",
        "R34",
    ),
    Mutant("encoding/runs.py", "neutralised = self._guards.count(text)", "neutralised = 0", "R45_control"),
    Mutant(_SEAL, "generation=request.generation,", "generation=1,", "R185_receipt"),
)
