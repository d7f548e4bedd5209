"""The page that lies in every kit: what its files mean and how a port is held against them."""

from __future__ import annotations

README = r"""# Vectors of the context planner

With these files a planner in another language shows that it plans as the reference does: same requests, same answers,
to the token id. They say nothing of a model's behaviour and authorise nothing.

| file | holds |
| --- | --- |
| `kit.json` | version, bundles with the digests of their files, the vectors with their sha256, `shapes` for digests |
| `vectors/<bundle>/<family>/<id>.json` | one vector |

A vector holds

- `request`: what is asked, in the wire format; a field that is absent has its default;
- `bundle`: id of the bundle that answers, a row of `kit.json`; the port brings its own copy and compares file digests;
- `expected`: the answer. `outcome` is `accepted` or the terminal state, `reason` the code of a refusal. `kept` and
  `removed` are decisions by id, `account` where every token went, `ids` what the runtime gets, `prompt` their text.
  A refusal has no ids;
- `fingerprints`: digests of the turns, see below;
- `fragileNumbers`: numbers in the request that a JSON reader may change.

`<id>.2.json` is the second plan of a lifecycle sample: a request with the turns and summaries that counted at that
moment. Turns that were withdrawn or replaced are not in it, as a planner without a store never sees them.
A sample whose limit depends on the bundle stands here with the limit it has there.

## How to compare

Either compare in the port: plan `request`, build the same objects, compare them field by field.
Or write one file per vector under the same name below a folder of answers, each an object with `expected` and
`fingerprints`, and run

    planner gate check-vectors KIT --answers ANSWERS

It names every file and JSON path that differs. `planner gate check-vectors KIT` runs the reference itself.

## Canonical JSON

Digests are sha256 over canonical JSON, written in hex:

- UTF-8, no spaces, separators `,` and `:`; only `"`, `\` and the characters below U+0020 are escaped, as `\"`, `\\`,
  `\n`, `\r`, `\t`, `\b`, `\f`, else `\u00xx` in lower case;
- a value of ours is written with the fields of its shape in `shapes`, in that order, under their `name` (the request
  has them under `wire`; one that is absent has its `default`); a field that is null or an empty list is left out, every
  other one is written, its default too; `holds` names the shape of what stands in a field;
- what an application brought as JSON (`own`) keeps its keys in their order;
- a whole number has no point; a double is the shortest decimal that reads back the same, with `.0` where it is whole,
  and with an exponent of at least two digits below 1e-4 and from 1e16 (`1e-07`, `1.5e+16`). A field that is `double`
  is a double however it was written.

`canonicalExamples` of `kit.json` shows some.

## Fingerprints

With `H` = sha256 over bytes, `||` = joined bytes, turns in order of `sequence`:

- `turns[].digest` = H(canonical turn); `turnChain`: v0 = H("turns"), v = H(v || digest) over raw bytes, for every turn;
- `source`: v0 = H("fp1"), v = H(v || H(canonical turn')), where turn' has only its messages with `accepted`, each with
  its sequence, in order of it. A message without a sequence has its turn's `sequence` plus its place from 0;
- `protected` = H(canonical list of [sequence, message id, reason] of each message with a `protection_reason`, by
  sequence);
- `runs`: `source` and `protected` of the turns each summary covers, as they are now;
- `requestDigest` = H(canonical object): first the fields `requestDigest.own` of `kit.json` that are not null and differ
  from `requestDigest.defaults`, then those of `requestDigest.digested` that are not empty, each as the hex digest of
  its canonical value (passages by `citation_id`), last `turns` = `turnChain`;
- `planId` = "p-" and the first 32 hex digits of H(plannerVersion || 0x00 || bundle digest || 0x00 || requestDigest);
- `finalInputDigest` = H(bundle digest in hex || 0x00 || ids as little-endian int32).

## Numbers

`fragileNumbers` lists path, kind and the spelling a template must print.
`integral` is a double without a fraction (`1.0`; many readers give 1), `exponent` one that languages spell differently
(`1e-07`), `beyond_double` a whole number above 2^53 that a reader of doubles changes, `negative_zero` is `-0.0`.
A port that cannot keep one must refuse such a request, not plan it.
"""
