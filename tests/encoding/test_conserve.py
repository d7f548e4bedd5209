"""What counts as kept, what is found again, and what is lost (design.md §4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from planner.encoding.conserve import Conserved, conserve, printed
from planner.encoding.reown import with_texts
from planner.encoding.template import render_plain
from planner.encoding.tracked import own
from planner.encoding.tracked_template import render_tracked
from planner.values.profile import ParsedString, TemplateProfile, Trims
from planner.values.prompt import Leaf, Rendered

PLAIN = TemplateProfile(template_digest="0" * 64)


def leaf(text: str, kind: Any = "user_text", role: str = "user", **fields: Any) -> Leaf:
    """Return a leaf of one turn."""
    return Leaf(item="turn/t1", section="history", kind=kind, text=text, role=role, **fields)


def kept(source: str, leaves: Sequence[Leaf], profile: TemplateProfile = PLAIN) -> Conserved:
    """Render the leaves as `m[0]`, `m[1]`, .. and check them."""
    values = [own(entry) for entry in leaves]

    def marked(texts: Any) -> str:
        return render_plain(source, {"m": with_texts(values, texts)})

    rendered = render_tracked(source, {"m": values})
    return conserve(rendered, leaves, profile, lambda text: "<|" in text, marked)


TEXT = "line 'one'\nline \"two\" \\ <b>&\ttäil"
FORMS = {
    "as it is": "[{{ m[0] }}]", "twice": "[{{ m[0] ~ m[0] }}]", "in two places": "{{ m[0] }}-{{ m[0] }}",
    "json": "{{ m[0] | tojson }}", "ascii json": "{{ m[0] | tojson(ensure_ascii=true) }}", "python": "{{ [m[0]] }}",
    "html": "{{ m[0] | escape }}", "json in html": "{{ ('' | safe) + (m[0] | tojson) }}",
    "escaped by hand": r"""'{{ m[0] | replace('\\', '\\\\') | replace("'", "\\'") | replace('\n', '\\n') }}'""",
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FORMS))
def test_an_escaped_text_is_kept(form: str) -> None:
    """Every way a template prints a whole text without losing any of it."""
    found = kept(FORMS[form], [leaf(TEXT)])
    assert (found.lost, found.ambiguous) == ((), ())
    assert any(owner is not None and owner.text == TEXT for owner, _ in found.rendered.spans)


@pytest.mark.parametrize("source", [
    "[x]", "[{{ m[0][1:] }}]", "[{{ m[0] | upper }}]", "[{{ m[0] | replace('one', 'two') }}]",
    "[{{ m[0] | truncate(8) }}]", "[{{ m[0] | trim }}]",
])  # fmt: skip
def test_a_changed_text_is_lost(source: str) -> None:
    """Dropped, cut, put in capitals, reworded, trimmed where the profile saw no trimming."""
    assert len(kept(source, [leaf(" " + TEXT + " ")]).lost) == 1


def test_trims_are_those_the_profile_saw_for_the_role() -> None:
    """Both ends; only the characters and the role that were measured."""
    profile = TemplateProfile(template_digest="0" * 64, trims={"user": Trims("\n", " ")})
    source = "[{{ m[0].strip() }}]"
    assert kept(source, [leaf("\n\nword  ")], profile).lost == ()
    assert len(kept(source, [leaf(" word")], profile).lost) == 1
    assert len(kept(source, [leaf("\nword", "result", "tool")], profile).lost) == 1


def test_only_what_a_parsed_string_hides_may_go() -> None:
    """Behind `</t>` the rest must be whole; without the string nothing may go."""
    profile = TemplateProfile(template_digest="0" * 64, parsed_strings=(ParsedString("user", "</t>"),))
    source = "[{{ m[0].split('</t>')[-1] }}]"
    assert kept(source, [leaf("hidden</t>shown")], profile).lost == ()
    assert len(kept("[{{ m[0].split('</t>')[-1][1:] }}]", [leaf("hidden</t>shown")], profile).lost) == 1
    assert len(kept("[{{ m[0][6:] }}]", [leaf("hidden shown")], profile).lost) == 1


def test_a_declaration_may_be_printed_line_by_line() -> None:
    """Behind comment marks, for tools and calls; a user's text may not be taken apart."""
    source = "{% for line in m[0].split('\n') %}// {{ line }}\n{% endfor %}"
    assert kept(source, [leaf("one\ntwo\n\nthree", "tools", "tools")]).lost == ()
    assert len(kept(source, [leaf("one\ntwo")]).lost) == 1
    dropped = "{% for line in m[0].split('\n')[:2] %}// {{ line }}\n{% endfor %}"
    assert len(kept(dropped, [leaf("one\ntwo\nthree", "tools", "tools")]).lost) == 1


@pytest.mark.parametrize("word", ["a", "user", "<|user|>", "frame", "1"])
def test_letters_of_the_frame_are_not_a_lost_text(word: str) -> None:
    """A dropped text whose letters stand in framing is lost all the same."""
    source = "<|user|>{{ m[0] }}<|frame|>1 a{{ m[2] }}"
    found = kept(source, [leaf("before"), leaf(word), leaf("after")])
    assert [entry.text for entry in found.lost] == [word]


def test_a_text_that_lost_its_owner_is_owned_where_it_stands() -> None:
    """A number the template parsed: of several places in framing the one it was printed at."""
    number = "{{ (m[1] | int) if (m[1] | int) | string == m[1] else m[1] }}"
    source = "n=12 {{ m[0] }} n=" + number + " n=12 {{ m[2] }}"
    found = kept(source, [leaf("x"), leaf("12", "result", "tool"), leaf("y")])
    assert (found.lost, found.ambiguous) == ((), ())
    at, places = 0, []
    for owner, length in found.rendered.spans:
        if owner is not None and owner.text == "12":
            places.append(found.rendered.text[:at].count("n="))
        at += length
    assert places == [2]


def test_control_text_that_lost_its_owner_is_owned_again_though_optional() -> None:
    """Unowned it would be framing, and framing is searched for control tokens."""
    thought = leaf("so <|end|> it is", "reasoning", "assistant", required=False)
    found = kept("a{{ m[0] }}b{{ ('%s' | escape) % m[1] }}c{{ m[2] | wordwrap(99) }}", [leaf("x"), thought, leaf("y")])
    text = found.rendered.text
    assert "end" in text
    owners = [owner for owner, length in found.rendered.spans for _ in range(length)]
    printed = text.find("so ")
    assert all(owner is thought for owner in owners[printed : printed + 5])


def test_white_space_alone_cannot_be_lost() -> None:
    """It says nothing; templates drop it at will."""
    assert kept("[]", [leaf(" \n ")]).lost == ()


def test_what_of_a_tool_is_not_required_is_a_detail() -> None:
    """An enumeration that is not printed is listed, not refused."""
    found = kept("[{{ m[0] }}]", [leaf("name", "tools"), leaf("near", "tools", required=False, path="enum[0]")])
    assert (found.lost, [entry.path for entry in found.detail_lost]) == ((), ["enum[0]"])


def test_a_template_that_raises_on_markers_leaves_the_place_open() -> None:
    """Then nothing proves where the text stands: it is not called kept."""
    values = [own(leaf("12", "result", "tool"))]
    source = "{{ 'n' ~ (m[0] | int) if m[0].isdigit() else missing.attribute }}"
    rendered = render_tracked(source, {"m": values})
    owner = values[0].spans[0][0]
    assert owner is not None
    found = conserve(rendered, [owner], PLAIN, lambda _: False, lambda _: None)
    assert [*found.lost, *found.ambiguous] == [owner]


def test_going_on_from_the_first_spans_finds_what_looking_at_all_finds() -> None:
    """Whole leaves and other pieces of any, wherever the render is parted; what was known stays as it was."""
    leaves = [leaf(text) for text in ("one", "two", "one")]
    source = "{{ m[0] }}-{{ m[1][:2] }}{{ m[2] }}{{ m[1] }}-{{ m[1][1:] }}{{ m[0] }}"
    rendered = render_tracked(source, {"m": [own(entry) for entry in leaves]})
    every = printed(rendered)
    assert (len(every.whole), [len(pieces) for pieces in every.pieces.values()]) == (3, [2])
    for count in range(len(rendered.spans) + 1):
        spans = rendered.spans[:count]
        begun = printed(Rendered(rendered.text[: sum(length for _, length in spans)], spans))
        before = {owner: list(pieces) for owner, pieces in begun.pieces.items()}
        assert printed(rendered, begun) == every
        assert begun.pieces == before
