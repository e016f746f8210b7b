"""Templates: what each way of failing suggests to change, before anything was tried."""

from collections.abc import Sequence

from macaron.hcp.document import HCP
from macaron.mindforge.expand.attribution import How
from macaron.mindforge.expand.candidate import Candidate, Edit, Edits, candidate
from macaron.mindforge.expand.slices import hooks_of

Idea = tuple[str, Edits]
"""What suggests it, and its edits."""

MAX_TOKENS = 4096
"""Longest response that is ever suggested."""
HOT = 1.0
NEVER = "(?!)"
"""A pattern that is found nowhere."""
ADVICE = (
    "Check every part of the request before you answer.",
    "Answer in exactly the form that is asked for.",
)
"""Put behind a system prompt; the last of the ideas, as a small base reads none of it."""


def ideas(hcp: HCP, key: str, hows: Sequence[How], tools: Sequence[str] = ()) -> list[Idea]:
    """What to try for a specialist, the most specific first.

    Args:
        hcp: the harness as it is.
        key: of the specialist.
        hows: ways in which its tasks failed.
        tools: of worlds, that it may not call.
    """
    repair = _repair(hcp, key, hows)
    made: list[Idea] = [("template:widened", widening(hcp, key))]
    if repair:
        made += [("template:repair", repair), ("template:repair", (*repair, *_hot(key)))]
        made += [(f"template:{edit.path.rpartition('.')[2]}", (edit,)) for edit in repair]
    made += [("template:decoding", (*repair, *edits)) for edits in _decodings(key)]
    made += [("template:skill", (edit,)) for edit in _skills(hcp, key)]
    if tools:
        known = [*hcp.specialists[key].tools, *tools]
        made += [("template:tool", (Edit(f"specialists.{key}.tools", known),))]
    made += [("template:prompt", (*repair, edit)) for edit in _prompts(hcp, key)]
    return made


def widening(hcp: HCP, key: str) -> Edits:
    """Everything that a harness may hold back: length, stop texts, hooks, the likeliest token."""
    config = hcp.specialists[key]
    longer = min(MAX_TOKENS, 4 * config.max_tokens)
    return (
        Edit(f"specialists.{key}.max_tokens", max(longer, config.max_tokens)),
        Edit(f"specialists.{key}.temperature", max(HOT, config.temperature)),
        Edit(f"specialists.{key}.top_p", 1.0),
        Edit(f"specialists.{key}.stop", []),
        *silenced(hcp, key),
    )


def silenced(hcp: HCP, key: str) -> Edits:
    """Every hook of the specialist's turns but the safety ones no longer asked in them."""
    own = hooks_of(hcp, key)
    return tuple(
        _silence(hcp, number, key)
        for number, hook in enumerate(hcp.hooks)
        if hook in own and not hook.safety
    )


def _silence(hcp: HCP, number: int, key: str) -> Edit:
    others = [k for k in hcp.hooks[number].specialists or hcp.specialists if k != key]
    if others:
        return Edit(f"hooks.{number}.specialists", others)
    # Nobody else's: a hook for no one cannot be written, and its number must stay.
    return Edit(f"hooks.{number}.pattern", NEVER)


def widened(hcp: HCP, key: str, scope: Sequence[str]) -> Candidate:
    """The widened harness, as far as the loop may go by itself.

    It is the base, and refused, where nothing of it may be widened.
    """
    allowed = [
        edit
        for edit in widening(hcp, key)
        if candidate(hcp, key, [edit], scope, "template:widened").state == "open"
    ]
    return candidate(hcp, key, allowed, scope, "template:widened")


def _repair(hcp: HCP, key: str, hows: Sequence[How]) -> Edits:
    config = hcp.specialists[key]
    edits: list[Edit] = []
    if "cut" in hows:
        longer = min(MAX_TOKENS, 4 * config.max_tokens)
        edits.append(Edit(f"specialists.{key}.max_tokens", longer))
    if "stopped" in hows:
        edits.append(Edit(f"specialists.{key}.stop", []))
    if "mangled" in hows:
        edits += silenced(hcp, key)
    return tuple(edits)


def _hot(key: str) -> Edits:
    return (Edit(f"specialists.{key}.temperature", HOT),)


def _decodings(key: str) -> list[Edits]:
    def of(temperature: float, top_p: float) -> Edits:
        place = f"specialists.{key}"
        return Edit(f"{place}.temperature", temperature), Edit(f"{place}.top_p", top_p)

    return [of(0.6, 1.0), of(1.0, 0.95), of(1.3, 0.95)]


def _skills(hcp: HCP, key: str) -> list[Edit]:
    known = hcp.specialists[key].skills
    return [
        Edit(f"specialists.{key}.skills", [*known, name])
        for name in hcp.skills
        if name not in known
    ]


def _prompts(hcp: HCP, key: str) -> list[Edit]:
    system = hcp.specialists[key].system
    return [Edit(f"specialists.{key}.system", f"{system}\n{text}") for text in ADVICE]
