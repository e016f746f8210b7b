"""Chat (L0): recall one stated fact and say it in the form that is asked for.

An answer is right only if it holds the fact, no other name, and the asked form; no form
accepts the plain answer.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import is_name, names
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.messages import Message

FACTS = {
    "city": ("I live in {}.", "My home is in {}.", "My city is {}.", "I moved to {}."),
    "dog": ("My dog is {}.", "I have a dog named {}.", "My dog is called {}.", "I call my dog {}."),
    "boss": ("My boss is {}.", "I work for {}.", "My boss is called {}.", "I report to {}."),
    "team": ("My team is {}.", "I play for {}.", "I joined the team {}.", "My team is called {}."),
    "song": ("My song is {}.", "I love the song {}.", "I sing {}.", "My best song is {}."),
}
QUESTIONS = {
    "city": ("Where do I live?", "What is my city?", "Which city is mine?"),
    "dog": ("What is my dog called?", "Which dog is mine?", "Who is my dog?"),
    "boss": ("Who is my boss?", "Who do I work for?", "What is my boss called?"),
    "team": ("What is my team?", "Who do I play for?", "Which team is mine?"),
    "song": ("What is my song?", "Which song is mine?", "What do I sing?"),
}
NEUTRAL = (
    "It is cold today.",
    "The bus was late.",
    "I like the sun.",
    "It is a long day.",
    "The shop is open.",
    "I had some tea.",
    "We are on time.",
    "The door is shut.",
)
REPLIES = ("Noted.", "I see.", "All right.")
WORDS = ("truly", "surely", "clearly", "indeed", "really", "simply")

WORDINGS = {
    "one-word": ("Answer in one word.", "Use one word.", "One word only."),
    "quote": ("Put it in quotes.", "Answer in quotes.", "Use quotes."),
    "brackets": ("Put it in brackets.", "Answer in brackets.", "Use brackets."),
    "list": ("Make it a list.", "Answer as a list.", "Use a list."),
    "yes": ("Start with yes.", "Say yes first.", "Yes comes first."),
    "question": ("End with ?", "Finish with ?", "Put ? last."),
    "colon": ("Use a label.", "Answer with a label.", "Put a label first."),
    "three-words": ("Answer in three words.", "Use three words.", "Three words only."),
    "five-words": ("Answer in five words.", "Use five words.", "Five words only."),
    "twice": ("Say it twice.", "Answer twice.", "Give it twice."),
    "word": ("Say {}.", "Use the word {}.", "Put in the word {}."),
    "exclaim": ("End with !", "Finish with !", "Put ! last."),
    "stars": ("Put it in stars.", "Answer in stars.", "Use stars."),
    "json": ("Answer as JSON.", "Use JSON.", "Make it JSON."),
    "thanks": ("End with thanks.", "Say thanks last.", "Thanks comes last."),
    "lines": ("Use two lines.", "Answer in two lines.", "Two lines only."),
    "lower": ("Use lower case.", "Answer in lower case.", "Lower case only."),
}
PAIRS = (("yes", "exclaim"), ("word", "exclaim"), ("yes", "word"), ("yes", "thanks"))

_STRONG = ("one-word", "quote", "brackets", "list", "yes", "question", "colon")
_WEAK = (
    "three-words",
    "five-words",
    "twice",
    "word",
    "exclaim",
    "stars",
    "json",
    "thanks",
    "lines",
)
MIX = {
    **dict.fromkeys(_STRONG, 42 / len(_STRONG)),
    **dict.fromkeys(_WEAK, 46 / len(_WEAK)),
    **dict.fromkeys(("lower", "two-rules"), 6.0),
}

_SINGLE = {
    "one-word": "{v}",
    "quote": '"{v}"',
    "brackets": "[{v}]",
    "list": "- {v}",
    "question": "Is it {v}?",
    "colon": "{noun}: {v}",
    "three-words": "It is {v}",
    "five-words": "Your {noun} is called {v}",
    "twice": "{v}, {v}",
    "stars": "*{v}*",
    "json": '{{"{noun}": "{v}"}}',
    "lines": "It is\n{v}",
    "lower": "it is {low}",
}


def render(rules: Sequence[str], noun: str, value: str, word: str = "") -> str:
    """An answer that has the value and obeys the rules; without rules, the plain answer."""
    if not rules:
        return f"Your {noun} is {value}."
    if rules[0] in _SINGLE:
        return _SINGLE[rules[0]].format(v=value, low=value.lower(), noun=noun)
    start = "Yes, it" if "yes" in rules else "It"
    said = f"{word} {value}" if "word" in rules else value
    end = ", thanks" if "thanks" in rules else ""
    return f"{start} is {said}{end}{'!' if 'exclaim' in rules else '.'}"


def _is_json(answer: str, data: dict[str, Any]) -> bool:
    try:
        found = json.loads(answer)
    except ValueError:
        return False
    return isinstance(found, dict) and list(found.values()) == [data["value"]]


CHECKS: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    "one-word": lambda a, d: len(a.split()) == 1 and a.strip(".!").isalpha(),
    "quote": lambda a, d: bool(re.fullmatch(r'"[^"]+"', a)),
    "brackets": lambda a, d: bool(re.fullmatch(r"\[[^\[\]]+\]", a)),
    "list": lambda a, d: all(line.startswith("- ") for line in a.split("\n")),
    "yes": lambda a, d: bool(re.match(r"yes\b", a, re.IGNORECASE)),
    "question": lambda a, d: a.endswith("?"),
    "colon": lambda a, d: a.startswith(f"{d['noun']}: "),
    "three-words": lambda a, d: len(a.split()) == 3,
    "five-words": lambda a, d: len(a.split()) == 5,
    "twice": lambda a, d: True,
    "word": lambda a, d: d["word"] in _words(a),
    "exclaim": lambda a, d: a.endswith("!"),
    "stars": lambda a, d: bool(re.fullmatch(r"\*[^*]+\*", a)),
    "json": _is_json,
    "thanks": lambda a, d: _words(a)[-1:] == ["thanks"],
    "lines": lambda a, d: len([line for line in a.split("\n") if line.strip()]) == 2,
    "lower": lambda a, d: a == a.lower(),
}


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def holds_fact(answer: str, data: dict[str, Any]) -> bool:
    """Whether the value is said and no other name is."""
    found = {w for w in _words(answer) if is_name(w)}
    return found == {data["value"].lower()}


def holds_form(answer: str, data: dict[str, Any]) -> bool:
    """Whether every rule is obeyed, and the value said once (twice where that is asked)."""
    times = 2 if "twice" in data["rules"] else 1
    spelled = data["value"].lower() if "lower" in data["rules"] else data["value"]
    short = 0 < len(answer.split()) <= 12 and answer.count(spelled) == times
    return short and all(CHECKS[rule](answer, data) for rule in data["rules"])


class Chat:
    """Recall and checkable form."""

    name = "chat"
    specialist = "L0"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A conversation of one to seven messages that ends with the question."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            noun = rng.choice(tuple(FACTS))
            rules = rng.choice(PAIRS) if kind == "two-rules" else (kind,)
            wordings = "+".join(f"{rule}/{rng.randrange(3)}" for rule in rules)
            return noun, rng.randrange(4), rng.randrange(3), wordings

        messages, reference, data = draw(
            split, self.name, phrases, lambda parts: _build(rng, split, parts)
        )
        return Task(self.name, self.specialist, kind, split, messages, reference, data)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """1 where fact and form both hold, else 0; the components tell which."""
        return [_score(t, a) for t, a in zip(tasks, answers, strict=True)]


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    noun, fact, question, wordings = str(parts[0]), int(parts[1]), int(parts[2]), str(parts[3])
    value, word = rng.choice(names(split)), rng.choice(WORDS)
    chosen = [w.split("/") for w in wordings.split("+")]
    rules = [rule for rule, _ in chosen]
    asked = " ".join(WORDINGS[rule][int(i)].format(word) for rule, i in chosen)
    stated = FACTS[noun][fact].format(value)
    ask = f"{QUESTIONS[noun][question]} {asked}"
    data = {"noun": noun, "value": value, "rules": rules, "word": word if "word" in rules else ""}
    return _conversation(rng, stated, ask), render(rules, noun, value, word), data


def _conversation(rng: random.Random, stated: str, ask: str) -> tuple[Message, ...]:
    layout = rng.randrange(4)
    if layout == 3:
        return (user(f"{stated} {ask}"),)
    messages: list[Message] = []
    for text in (stated, *rng.sample(NEUTRAL, layout)):
        messages += [user(text), {"role": "assistant", "content": rng.choice(REPLIES)}]
    return (*messages, user(ask))


def _score(task: Task, answer: str) -> Score:
    answer, data = answer.strip(), dict(task.data)
    fact = holds_fact(answer, data)
    echoed = any(answer == message["content"] for message in task.messages)
    form = holds_form(answer, data) and not echoed
    return Score(float(fact and form), {"fact": float(fact), "form": float(form)})
