"""Derive the demo's OpenAI form from its request; `--check` proves that the committed files still agree.

    python tools/demo_fixture/derive.py            writes building_desk.chat.json and building_desk.tools.json
    python tools/demo_fixture/derive.py --check    exit 1 when a committed file differs

The request is the source. A message list knows neither passages, output schema, protection nor cancelled
turns: those stay behind, and the policy becomes one system message.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"


def openai_message(message: dict[str, Any]) -> dict[str, Any]:
    """Write one message of the request as a chat API takes it; arguments become JSON text."""
    if "toolResult" in message:
        result = message["toolResult"]
        return {"role": "tool", "tool_call_id": result["callId"], "content": result["text"]}
    out: dict[str, Any] = {"role": message["role"], "content": message.get("text")}
    if "reasoning" in message:
        out["reasoning_content"] = message["reasoning"]
    if "toolCalls" in message:
        out["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": json.dumps(call["arguments"], ensure_ascii=False),
                },
            }
            for call in message["toolCalls"]
        ]
    return out


def chat(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the message list: system, every completed turn, the question."""
    rules = [item["text"] for item in (*request["policy"], *request["dataScope"])]
    messages = [{"role": "system", "content": "\n\n".join(rules)}]
    for turn in request["turns"]:
        if turn["state"] == "completed":
            messages.extend(openai_message(message) for message in turn["messages"])
    return [*messages, {"role": "user", "content": request["request"]["text"]}]


def main(argv: list[str] | None = None) -> int:
    """Write the files or compare them; 1 when one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args(argv).check
    request = json.loads((DEMO / "building_desk.request.json").read_text(encoding="utf-8"))
    forms = {"chat": chat(request), "tools": [tool["declaration"] for tool in request["tools"]]}
    different = 0
    for name, value in forms.items():
        path = DEMO / f"building_desk.{name}.json"
        data = (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8")
        if check:
            same = path.is_file() and path.read_bytes() == data
            different += not same
            sys.stdout.write(f"{path.name}: {'agrees with' if same else 'differs from'} the request\n")
        else:
            path.write_bytes(data)
            sys.stdout.write(f"{path.name}: written\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
