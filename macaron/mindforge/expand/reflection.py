"""Reflection: the model reads its own failure and proposes edits of its harness.

What it says is text from a model: it is parsed as TOML, validated like any other candidate, and
mostly comes to nothing with a small base.
"""

import json
import tomllib
from dataclasses import replace

from macaron.environments.base import Task
from macaron.hcp.document import HCP
from macaron.messages import Message
from macaron.mindforge.expand.candidate import Edit
from macaron.mol.runtime import Runtime

MAX_TOKENS = 128
MAX_EDITS = 4
FIELDS = ("system", "temperature", "top_p", "max_tokens", "stop", "skills")


def ask(hcp: HCP, key: str, task: Task) -> str:
    """What the model is asked."""
    config = hcp.specialists[key]
    fields = "\n".join(f"{name} = {_toml(getattr(config, name))}" for name in FIELDS)
    return (
        "You failed this task:\n"
        f"{task.messages[-1]['content']}\n\n"
        "These are the settings you ran with:\n"
        f"{fields}\n\n"
        "Answer with the settings to change, as TOML, one a line."
    )


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def proposed(text: str, key: str) -> list[Edit]:
    """The edits in an answer; none where it is not TOML, or names nothing that there is."""
    body = text.strip().removeprefix("```toml").removeprefix("```").removesuffix("```")
    try:
        values = tomllib.loads(body)
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    named = [(name, value) for name, value in values.items() if name in FIELDS]
    return [Edit(f"specialists.{key}.{name}", value) for name, value in named[:MAX_EDITS]]


def reflect(runtime: Runtime, key: str, task: Task, seed: int) -> list[Edit]:
    """What the model would change after this failure, in a session of the same harness."""
    config = runtime.hcp.specialists[key]
    longer = config.model_copy(update={"max_tokens": MAX_TOKENS, "stop": (), "tools": ()})
    specialists = {**runtime.hcp.specialists, key: longer}
    # Hooks are for users' turns, and tools would act.
    own = runtime.hcp.model_copy(update={"specialists": specialists, "hooks": ()})
    session = replace(runtime, hcp=own).session(seed, temperature=1.0, clock=lambda: 0.0)
    message: Message = {"role": "user", "content": ask(runtime.hcp, key, task)}
    try:
        [turn] = runtime.turns([(session, [message], key)])
    finally:
        session.close()
    return proposed(turn.answer, key)
