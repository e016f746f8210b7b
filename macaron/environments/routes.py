"""The routing set's words: one TOML document a language, expanded into labelled turns.

A template is either trained on or held out, for ever, and so is a paraphrase family that has no
`train`; a held-out turn has names and numbers of the sealed split only. docs/routing.md tells more.
"""

import random
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from macaron.environments.base import Split
from macaron.environments.entities import names, numbers
from macaron.errors import ConfigError
from macaron.profile import Section, parse_toml

LABELS = ("chat", "agent", "coding", "genui")

DEFAULT = "coding"
"""What `default` stands for: the label of the shipped HCPs' `router.default`."""

LANGUAGES = ("en", "zh", "ru", "ko", "es")

Kind = Literal["ask", "several", "steer", "identity", "said", "vague"]

Part = Literal["train", "held", "entity", "wording"]
"""`held`: held-out templates. The other two are held out only in their names (`entity`), or in the
asks' words too (`wording`)."""

WRAPPED = 0.25
"""Share of turns that something stands around."""

Phrases = tuple[str, ...]

_FOLDER = Path(__file__).parent / "routes"


class Family(Section):
    """One way of putting things, in several templates."""

    id: str = Field(description="its name, once in a document")
    kind: Kind = Field(description="what makes its turns easy or hard to route")
    label: str = Field("", description="of all its turns; empty: the label of what is asked")
    train: Phrases = Field((), description="templates that are trained on")
    held: Phrases = Field(min_length=1, description="templates that never are")

    def templates(self, part: Part) -> Phrases:
        """Those that the part may use."""
        return self.held if part == "held" else self.train

    @property
    def slice(self) -> str:
        """What a held-out turn of it has new: its template, or its whole family."""
        return "template" if self.train else "family"


class Wraps(Section):
    """Beginnings and ends that change nothing; `{turn}` is the turn itself."""

    train: Phrases = Field(min_length=1, description="around trained turns")
    held: Phrases = Field(min_length=1, description="around held-out turns, and no others")


class Language(Section):
    """One language's turns."""

    language: str = Field(description="its English name")
    asks: dict[str, Phrases] = Field(description="what can be asked for, by label")
    unseen: dict[str, Phrases] = Field(description="asks in words that no training has, by label")
    links: dict[str, Phrases] = Field(description="an ask with what it is about, by label")
    things: dict[str, Phrases] = Field(description="what a turn can be about, by label")
    slots: dict[str, Phrases] = Field({}, description="words that take turns, by their slot")
    wraps: Wraps = Field(description="what may stand around a turn")
    families: tuple[Family, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_whole(self) -> "Language":
        for name in ("asks", "unseen", "links", "things"):
            if set(getattr(self, name)) != set(LABELS):
                raise ValueError(f"{name} should have the labels {', '.join(LABELS)}")
        if odd := {f.label for f in self.families} - {"", "default", *LABELS}:
            raise ValueError(f"no such labels: {', '.join(sorted(odd))}")
        for every in (
            [f.id for f in self.families],
            [t for f in self.families for t in f.held + f.train],
        ):
            if twice := sorted({x for x in every if every.count(x) > 1}):
                raise ValueError(f"more than once: {', '.join(map(repr, twice))}")
        return self


@cache
def language(code: str) -> Language:
    """A language's document.

    Raises:
        ConfigError: there is none, or it is not whole.
    """
    if code not in LANGUAGES:
        raise ConfigError(f"no language {code!r}", mend=f"there are {', '.join(LANGUAGES)}")
    return parse_toml(_FOLDER / f"{code}.toml", Language)


class Turn(Section):
    """One labelled turn of a user."""

    text: str
    label: str
    kind: str
    language: str
    family: str
    template: str
    slice: str
    """What it has that training has not: nothing (`train`), `template`, `family`, `entity`,
    `wording`."""


class Writer:
    """Writes turns of one language; what it draws depends on the generator alone."""

    def __init__(self, code: str, rng: random.Random, part: Part) -> None:
        self.code, self.rng, self.part = code, rng, part
        self.words = language(code)
        split: Split = "train" if part == "train" else "sealed"
        self._names, self._numbers = names(split), numbers(split, 2, 99)

    def write(self, kind: str) -> Turn:
        """A turn of the kind; `plain` and `about` share the families of the kind `ask`.

        Raises:
            ConfigError: the language has no such kind in this part.
        """
        wanted = "ask" if kind in ("plain", "about") else kind
        families = [f for f in self.words.families if f.kind == wanted and f.templates(self.part)]
        if not families:
            raise ConfigError(f"no kind {kind!r} in the part {self.part!r}", where=self.code)
        family = self.rng.choice(families)
        template = self.rng.choice(family.templates(self.part))
        label = family.label or self.rng.choice(LABELS)
        about = (
            self._other(label)
            if kind != "plain" and self.rng.random() < self._share(kind)
            else label
        )
        text = self._fill(template, label, about)
        return Turn(
            text=text, label=DEFAULT if label == "default" else label, kind=kind,
            language=self.code, family=family.id, template=template,
            slice=family.slice if self.part == "held" else self.part,
        )  # fmt: skip

    def _share(self, kind: str) -> float:
        """Of turns that are about something of another label than what is asked for."""
        return 1.0 if kind == "about" else 0.5

    def _other(self, label: str) -> str:
        return self.rng.choice([x for x in LABELS if x != label])

    def _fill(self, template: str, label: str, about: str) -> str:
        fills = {"label": self._other(label), "k": str(self.rng.choice(self._numbers))}
        if "{do" in template or "{Do" in template or "{ask" in template or "{Ask" in template:
            other = self._other(label)
            ask, thing = self._ask(label), self._thing(about)
            do = self._linked(label, ask, thing)
            fills |= {"do": do, "Do": _upper(do), "ask": ask, "Ask": _upper(ask), "thing": thing}
            second = self._linked(other, self._ask(other), self._thing(other))
            fills |= {"do2": second, "Do2": _upper(second)}
        return self._named(self._wrapped(self._slotted(_filled(template, fills))))

    def _slotted(self, text: str) -> str:
        for slot, words in self.words.slots.items():
            while f"{{{slot}}}" in text:
                text = text.replace(f"{{{slot}}}", self.rng.choice(words), 1)
        return text

    def _wrapped(self, text: str) -> str:
        if not text.strip() or self.rng.random() >= WRAPPED:
            return text
        wraps = self.words.wraps.held if self.part == "held" else self.words.wraps.train
        return self.rng.choice(wraps).replace("{turn}", text)

    def _ask(self, label: str) -> str:
        return self.rng.choice(
            (self.words.unseen if self.part == "wording" else self.words.asks)[label]
        )

    def _thing(self, label: str) -> str:
        # Now and then only a name.
        return self.rng.choice((*self.words.things[label], "{n}"))

    def _linked(self, label: str, ask: str, thing: str) -> str:
        return _filled(self.rng.choice(self.words.links[label]), {"ask": ask, "thing": thing})

    def _named(self, text: str) -> str:
        """The text with a name at each `{n}`, no two alike."""
        places = text.count("{n}")
        for name in self.rng.sample(self._names, places):
            text = text.replace("{n}", name, 1)
        return text


def _filled(template: str, fills: dict[str, str]) -> str:
    for slot, words in fills.items():
        template = template.replace(f"{{{slot}}}", words)
    return template


def _upper(text: str) -> str:
    """With a first letter as at a sentence's beginning."""
    return text[:1].upper() + text[1:]
