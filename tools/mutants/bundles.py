"""Mutants of what binds a bundle, how one is read and when a template may be activated (issue D)."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_DIGEST, _VERDICT, _SEAL = "bundles/digest.py", "steps/activation_verdict.py", "steps/seal.py"
_FORMATS = "R220_bundle_formats"

MUTANTS = (
    Mutant("steps/observe.py", "if prompt == planned:", "if abs(prompt - planned) <= 1:", "R41"),
    Mutant(
        "steps/observe.py",
        "planned = sent + receipt.account.runtime_overhead_tokens",
        "planned = sent",
        "R41@test_certify",
    ),
    Mutant(
        "certify.py",
        "planned_tokens=len(made.ids) + runtime.overhead_tokens,",
        "planned_tokens=len(made.ids),",
        "R41@test_certify",
    ),
    Mutant(
        _DIGEST,
        '"files": sorted([entry.path, entry.size_bytes, entry.sha256] for entry in manifest.files),',
        '"files": sorted([entry.path, entry.size_bytes] for entry in manifest.files),',
        "R42 R172@test_identity",
    ),
    Mutant(
        "planner.py",
        "        if receipt.bundle_digest != manifest.digest:\n            raise",
        "        if receipt.model_bundle_id != manifest.id:\n            raise",
        "R42",
    ),
    Mutant(_DIGEST, '"adapter": _adapter(manifest.adapter),', '"adapter": manifest.adapter is not None,', "R172"),
    Mutant(_DIGEST, ', "scale": float(adapter.scale)}', "}", "R172@test_adapters"),
    Mutant(
        _DIGEST,
        '{} if manifest.base_model is None else {"baseModel": manifest.base_model}',
        "{}",
        "R172@test_identity",
    ),
    Mutant("runtimes/llama_cpp.py", '"prompt": list(ids),', '"prompt": list(ids)[1:],', "R43@test_identity R43@cli"),
    Mutant("encoding/runs.py", "key = (text, lengths)", "key = (text[:4], lengths)", "R43@parity/test_parity"),
    Mutant(
        "encoding/runs.py",
        '        ids = array("i", listed)\n',
        '        ids = array("i", dict.fromkeys(listed))\n',
        "R43@gguf",
    ),
    Mutant("values/runtime_rows.py", "        kept_back_tokens=1,\n", "", "R173"),
    Mutant("values/runtime.py", "self.profile.window_multiple if self.reviewed else 1", "256", "R173"),
    Mutant(
        _SEAL,
        "template_fallback=manifest.template_fallback if manifest is not None else None,",
        "template_fallback=None,",
        "R174 R177",
    ),
    Mutant(
        _SEAL,
        "template_version=manifest.template_version if manifest is not None else None,",
        "template_version=request.app_version,",
        "R174",
    ),
    Mutant("activation.py", "cost_of(after(within(sample.after", "cost_of(before(within(sample.after", "R175"),
    Mutant(
        _VERDICT,
        "name for name, _ in run.before.immutable if name not in kept",
        "name for name in kept if name not in kept",
        "R175",
    ),
    Mutant(_VERDICT, "    for cell in uncovered:\n", "    for cell in uncovered[1:]:\n", "R176"),
    Mutant(
        _VERDICT,
        "            if run.before.reason is None and run.after.reason is not None:\n",
        "            if run.before.reason is not None and run.after.reason is not None:\n",
        "R176",
    ),
    Mutant(
        _VERDICT,
        'if cell.status != "measured" or cell.bundle_digest == template.bundle_digest',
        'if cell.status != "measured" or cell.bundle_digest in evidence.digests',
        "R176",
    ),
    Mutant("activation.py", "for limit in (cell.limits or tiers)", "for limit in tiers[:1]", "R176"),
    Mutant(
        "bundles/overlay.py",
        "if sha256_hex(data) != template.sha256 or changed.digest",
        "if changed.digest",
        "R177",
    ),
    Mutant(
        "bundles/overlay.py",
        "return self.within if reason is None else _built_in(self.built_in, reason)",
        "return self.within",
        "R177 R174",
    ),
    Mutant(
        "bundles/sample_counts.py",
        "json.dumps([bundle_digest, hashlib.sha256(_shipped()).hexdigest()])",
        "json.dumps([hashlib.sha256(_shipped()).hexdigest()])",
        "R180",
    ),
    Mutant(
        "bundles/hf_config.py",
        "context_tokens=min(known) if known else None,",
        "context_tokens=max(known, default=None),",
        f"{_FORMATS}_mlx",
    ),
    Mutant(
        "bundles/hf_config.py",
        'contexts.append(_context(genai, ("context_length",)))',
        "contexts.append(_context(genai))",
        f"{_FORMATS}_genai",
    ),
    Mutant("bundles/stage.py", '("weights are not read", _WEIGHTS), ', "", f"{_FORMATS}_mlx {_FORMATS}_genai"),
    Mutant(
        "bundles/open.py",
        'if head.startswith(GGUF) or path.suffix.lower() == ".gguf":',
        'if path.suffix.lower() == ".bin":',
        f"R220_a_gguf {_FORMATS}_gguf {_FORMATS}_refused",
    ),
    Mutant(
        "bundles/vocab_merges.py",
        '            pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated", invert=False),\n',
        "",
        _FORMATS,
    ),
    Mutant(
        "bundles/gguf_vocab.py",
        '        raise PlannerFault("format_not_supported", f"GGUF tokenizer.ggml.pre {name[:60]!a}")\n',
        '        name = "default"\n',
        f"{_FORMATS}_refused",
    ),
    Mutant(
        "bundles/gguf_pre.py",
        '        Splitting((_GPT2,)),\n        ("gpt-2",',
        '        Splitting((_LLAMA3,)),\n        ("gpt-2",',
        f"{_FORMATS}_gguf",
    ),
    Mutant(
        _DIGEST,
        '"runtime": None if manifest.runtime is None else manifest.runtime.identity(),',
        '"runtime": None if manifest.runtime is None else manifest.runtime.name,',
        "R172@test_identity",
    ),
    Mutant(
        "steps/certify.py",
        "        return vector.planned_tokens == vector.counted_tokens\n    return 0",
        "        return vector.planned_tokens >= vector.counted_tokens\n    return 0",
        "R41@test_certify",
    ),
    Mutant(
        "activation.py",
        "cost_of(before(within(sample.before, app_version, limit))),",
        "cost_of(before(within(sample.after, app_version, limit))),",
        "R175",
    ),
)
