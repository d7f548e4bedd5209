"""Print the judge's findings: outcomes of the 66 dialogues for each bundle folder."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from tests.support import dialogues
from tests.support.framing import CONCESSIONS, concede, normalise
from tests.support.judge import Judge
from tests.support.reference import CannotRender, ReferenceBundle, bundles_below


def whole_dialogues(judge: Judge, chats: list[dialogues.Dialogue]) -> dict[str, int]:
    """Count the dialogues whose whole list renders with every text and call (facts-bundles.md §8)."""
    columns = {
        "as is": (), "serialised": CONCESSIONS[:1], "text left out": CONCESSIONS[1:2],
        "both": CONCESSIONS[:2],
    }  # fmt: skip
    counts = dict.fromkeys([*columns, "no tools"], 0)
    for chat in chats:
        for column, names in columns.items():
            framed = concede(normalise(chat.messages, judge.traits, judge.alias), names)
            counts[column] += judge.verdict(framed.messages, chat.tools).carried
        counts["no tools"] += judge.verdict(dialogues.without_tools(chat).messages, ()).carried
    return counts


def main() -> None:
    """Parse the command line and print one row per bundle."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, action="append", required=True,
                        help="a bundle folder, or a folder of bundle folders")  # fmt: skip
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--concessions", action="store_true", help="allow all three")
    parser.add_argument("--no-tools", action="store_true", help="take tools, calls and results out")
    parser.add_argument("--whole", action="store_true", help="whole dialogues instead of the window")
    parser.add_argument("--exhaustive", action="store_true", help="measure every rung")
    args = parser.parse_args()
    chats = dialogues.load(args.shared)
    if args.no_tools:
        chats = [dialogues.without_tools(chat) for chat in chats]
    for root in args.bundle:
        names = bundles_below(root)
        for folder in [root / name for name in names] or [root]:
            started = time.process_time()
            bundle = ReferenceBundle(folder)
            judge = Judge(bundle, window=args.window, concessions=CONCESSIONS if args.concessions else ())
            if args.whole:
                row = str(whole_dialogues(judge, chats))
            else:
                findings = [judge.find(chat, exhaustive=args.exhaustive) for chat in chats]
                row = str(dict(Counter(finding.outcome for finding in findings).most_common()))
            print(f"| {bundle.name} | {row} | {time.process_time() - started:.1f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except CannotRender as failure:
        raise SystemExit(f"a dialogue did not render: {failure.kind}") from None
