"""GenUI (L3): a card of components that meets a list of requirements, as TSX-like text.

The text is parsed, never searched: an answer is right only if its tree is exactly what was
asked for, whatever its white space and the order of its attributes.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from macaron.environments.answers import code_of
from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user

MIX = {
    "one": 24.0,
    "two": 26.0,
    "three": 14.0,
    "row": 12.0,
    "stat": 12.0,
    "four": 7.0,
    "five": 5.0,
}
COUNT = {"one": 1, "two": 2, "three": 3, "row": 2, "stat": 1, "four": 4, "five": 5}
TAGS = ("Text", "Button", "Field", "Badge", "Check", "List")
LEADS = (
    "Make a card {} with {}.",
    "Build a card {} with {}.",
    "Show a card {} that has {}.",
    "I need a card {} with {}.",
)
ELEMENTS = ("a {tag} {name}", "the {tag} {name}")
ROWS = ("in a row", "side by side")
STATS = ("a stat {} of {}", "a stat {} at {}")

Tree = dict[str, Any]
"""{tag, attributes: {name: string or whole number}, children}."""


def element(tag: str, attributes: Mapping[str, str | int], children: Sequence[Tree] = ()) -> Tree:
    """One node of a tree."""
    return {"tag": tag, "attributes": dict(attributes), "children": list(children)}


def render(tree: Tree) -> str:
    """The tree as text on one line."""
    attributes = "".join(
        f' {k}="{v}"' if isinstance(v, str) else f" {k}={{{v}}}"
        for k, v in tree["attributes"].items()
    )
    if not tree["children"]:
        return f"<{tree['tag']}{attributes}/>"
    inside = "".join(render(child) for child in tree["children"])
    return f"<{tree['tag']}{attributes}>{inside}</{tree['tag']}>"


_TAG = re.compile(r"""\s*<(/?)([A-Z][a-z]*)((?:\s+[a-z]+=(?:"[^"<>]*"|\{\d+\}))*)\s*(/?)>""")
_ATTRIBUTE = re.compile(r'([a-z]+)=(?:"([^"]*)"|\{(\d+)\})')


def parse(text: str) -> Tree | None:
    """The tree in the text, or None where it is not exactly one well-formed tree."""
    root = element("", {})
    open_nodes, at, text = [root], 0, text.strip()
    while at < len(text):
        match = _TAG.match(text, at)
        if match is None or (at > 0 and len(open_nodes) == 1):
            return None
        closing, tag, attributes, alone = match.groups()
        at = match.end()
        if closing:
            if attributes or alone or open_nodes[-1]["tag"] != tag:
                return None
            open_nodes.pop()
            continue
        found = _ATTRIBUTE.findall(attributes)
        node = element(tag, {k: int(n) if n else s for k, s, n in found})
        if len(node["attributes"]) < len(found):
            return None
        open_nodes[-1]["children"].append(node)
        if not alone:
            open_nodes.append(node)
    whole = len(open_nodes) == 1 and len(root["children"]) == 1
    return dict(root["children"][0]) if whole else None


class GenUI:
    """Cards of one to five components."""

    name = "genui"
    specialist = "L3"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A card to make; the kind says how many elements and what is special about them."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            tags = " ".join(rng.sample(TAGS, COUNT[kind]))
            # A part that cannot be seen would put one phrase into both splits.
            special = rng.randrange(2) if kind in ("row", "stat") else 0
            return kind, rng.randrange(4), rng.randrange(2), special, tags

        messages, reference, data = draw(
            split, self.name, phrases, lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where the tree is the one asked for, else 0."""
        return [_score(t, a) for t, a in zip(tasks, answers, strict=True)]


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    kind, lead, wording, special = str(parts[0]), int(parts[1]), int(parts[2]), int(parts[3])
    tags = str(parts[4]).split()
    title, *labels = rng.sample(names(split), len(tags) + 1)
    children = [element(tag, {"label": label}) for tag, label in zip(tags, labels, strict=True)]
    said = [
        ELEMENTS[wording].format(tag=tag.lower(), name=label)
        for tag, label in zip(tags, labels, strict=True)
    ]
    if kind == "stat":
        value = rng.choice(numbers(split, 2, 99))
        name = rng.choice(names(split))
        children.append(element("Stat", {"label": name, "value": value}))
        said.append(STATS[special].format(name, value))
    listed = ", ".join(said[:-1]) + (" and " if said[1:] else "") + said[-1]
    if kind == "row":
        children = [element("Row", {}, children)]
        listed = f"{listed} {ROWS[special]}"
    tree = element("Card", {"title": title}, children)
    return (user(LEADS[lead].format(title, listed)),), render(tree), {"tree": tree}


def _score(task: Task, answer: str) -> Score:
    found, asked = parse(code_of(answer)), task.data["tree"]
    if found is None:
        return Score(0.0, {"parses": 0.0, "elements": 0.0})
    flat, wanted = _labels(found), _labels(asked)
    share = len(flat & wanted) / len(wanted)
    return Score(float(found == asked), {"parses": 1.0, "elements": share})


def _labels(tree: Tree) -> set[str]:
    inner = [_labels(child) for child in tree["children"]]
    return {render({**tree, "children": []})}.union(*inner)
