"""Recall (L0): who said what over several turns, and what was taken back since.

An answer is right only if it is the one name asked for: not the old one, not a friend's, not two.
"""

import random
from collections.abc import Sequence

from macaron.environments.base import Score, Split, Task
from macaron.environments.chat import FACTS, NEUTRAL, REPLIES
from macaron.environments.entities import names
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.messages import Message

MIX = {"told": 1.0, "corrected": 2.0, "friend": 1.0}
FRIENDS = {
    "city": "My friend lives in {}.",
    "dog": "My friend has a dog named {}.",
    "boss": "My friend works for {}.",
    "team": "My friend plays for {}.",
    "song": "My friend loves the song {}.",
}
CORRECTIONS = (
    "No, the {noun} is {name} now.",
    "I was wrong: the {noun} is {name}.",
    "The {noun} has changed to {name}.",
)
ASKS = (
    "Name {whose} {noun}. Give the name alone.",
    "What is {whose} {noun}? Only the name.",
    "Say {whose} {noun}, one name and nothing else.",
)


class Recall:
    """Conversations of several facts that end with a question on one."""

    name = "recall"
    specialist = "L0"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A conversation; the kind says whether the fact is mine, a friend's, or was corrected."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            nouns = rng.sample(tuple(FACTS), 2)
            ways = (rng.randrange(4), rng.randrange(4))
            return kind, *nouns, *ways, rng.randrange(3), rng.randrange(3)

        content = draw(split, self.name, phrases, lambda parts: _build(rng, split, parts))
        return Task(self.name, self.specialist, kind, split, *content)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 for the name alone, with or without a full stop; else 0."""
        pairs = zip(tasks, answers, strict=True)
        return [Score(float(a.strip().removesuffix(".") == t.reference)) for t, a in pairs]


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    kind, noun, other = (str(part) for part in parts[:3])
    way, other_way, correction, ask = (int(part) for part in parts[3:])
    mine, theirs, new, besides = rng.sample(names(split), 4)
    said = [
        FACTS[noun][way].format(mine),
        FRIENDS[noun].format(theirs),
        FACTS[other][other_way].format(besides),
        rng.choice(NEUTRAL),
    ]
    rng.shuffle(said)
    if kind == "corrected":
        said.append(f"My {noun}: " + CORRECTIONS[correction].format(noun=noun, name=new))
    whose = "my friend's" if kind == "friend" else "my"
    right = {"told": mine, "friend": theirs, "corrected": new}[kind]
    messages: list[Message] = []
    for text in said:
        messages += [user(text), {"role": "assistant", "content": rng.choice(REPLIES)}]
    messages.append(user(ASKS[ask].format(whose=whose, noun=noun)))
    wrong = [name for name in (mine, theirs, new, besides) if name != right]
    return tuple(messages), right, {"wrong": wrong}
