"""Nothing in the checkout names the machine it was written on, or a host to fetch from."""

from __future__ import annotations

import re

from tests.tidy.sources import ROOT, our_files

_TEXT = frozenset({
    ".py", ".md", ".toml", ".txt", ".json", ".jinja", ".cfg", ".ini", ".yml", ".yaml", ".sh", "",
})  # fmt: skip
# Put together here so that this file does not find itself.
_PATHS = re.compile(
    "|".join((
        r"(?<![\w./-])/" + "work/",
        r"(?<![\w./-])/" + "home/[a-z]",
        r"(?<![\w./-])/" + "root/",
        r"(?<![\w./-])/" + "Users/[A-Za-z]",
        r"\b[A-Z]:\\" + r"\\?Users\\",
    ))
)  # fmt: skip
_HOSTS = re.compile(
    "|".join(
        re.escape(head + tail)
        for head, tail in (
            ("pypi", ".org"), ("pythonhosted", ".org"), ("registry.npm", "js.org"), ("hugging", "face.co"),
            ("index", "-url"), ("find-", "links"), ("local", "host:"),
        )
    )
)  # fmt: skip
ALLOWED = frozenset({"tools/reference_bundle/corpus", "fixtures/demo", "fixtures/samples"})
"""Text that was written as content: a path or host in it is part of a story."""


def test_no_machine_paths_and_no_hosts() -> None:
    """A checkout moves between machines; an installer finds its own index."""
    wrong = []
    for path in our_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in _TEXT or path.stat().st_size > 1_000_000 or name.startswith(tuple(ALLOWED)):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if _PATHS.search(line) or _HOSTS.search(line):
                wrong.append(f"{name}:{number}")
    assert wrong == []
