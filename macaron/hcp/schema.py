"""The sections of an HCP document, each strict and frozen; what they say of each other is checked
by the document.

Texts, names and numbers only: nothing in here is code.
"""

import math
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from macaron.profile import Section, dotted

Surface = Literal["functions", "repl", "ui4a"]
ToolFormat = Literal["hermes"]
Event = Literal["before_turn", "after_turn", "before_tool", "after_tool", "before_stop"]
Action = Literal["refuse", "replace", "note", "continue"]
Named = TypeVar("Named", bound="Part")

BUILTINS = ("load_skill", "save_tool", "promote_tool", "shell")
"""Tools of the harness itself: what a tool with the source `builtin` may be named."""


class Part(Section):
    """A section of the harness: no value is taken for another type's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"should be a regular expression ({error})") from error
    return text


def _json_schema(value: dict[str, Any]) -> dict[str, Any]:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator

    if odd := _not_json(value):
        raise ValueError(f"should hold texts, numbers, truths, arrays and tables only ({odd})")
    try:
        Draft202012Validator.check_schema(value)
    except SchemaError as error:
        place = dotted(error.path)
        raise ValueError(f"should be a JSON Schema ({place}: {error.message:.120})") from error
    if lost := _lost_reference(value, value):
        raise ValueError(f"should hold every $ref that it names ({lost} leads nowhere in it)")
    if value.get("type") != "object":
        raise ValueError('should be a JSON Schema of an object (type = "object")')
    ordered: dict[str, Any] = in_order(value)
    return ordered


def _lost_reference(node: Any, root: Any) -> str:
    """A `$ref` that leads nowhere within the schema; nothing is ever fetched for one."""
    if isinstance(node, list):
        return next(filter(None, (_lost_reference(part, root) for part in node)), "")
    if not isinstance(node, dict):
        return ""
    reference = node.get("$ref")
    if isinstance(reference, str) and not _leads(reference, root):
        return reference
    return _lost_reference(list(node.values()), root)


def _leads(reference: str, root: Any) -> bool:
    found = root
    if reference != "#" and not reference.startswith("#/"):
        return False
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True


def _not_json(value: Any) -> str:
    """What in a value has no spelling in both TOML and JSON; empty where nothing is odd."""
    if isinstance(value, dict):
        odd = (_not_json(part) for entry in value.items() for part in entry)
        return next(filter(None, odd), "") if all(isinstance(k, str) for k in value) else "a key"
    if isinstance(value, list):
        return next(filter(None, map(_not_json, value)), "")
    if isinstance(value, str):
        # Half a surrogate pair is no character, and UTF-8 cannot write it.
        return "" if _is_text(value) else "half a character"
    if isinstance(value, float):
        return "" if math.isfinite(value) else str(value)
    return "" if isinstance(value, bool | int) else type(value).__name__


def in_order(value: Any) -> Any:
    """A JSON value with the keys of its tables in the alphabet's order.

    The digest knows no order, so that what a model is shown must not depend on one.
    """
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(part) for part in value] if isinstance(value, list) else value


def _named(values: dict[str, Named]) -> dict[str, Named]:
    return {key: values[key] for key in sorted(values)}


def _is_text(value: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in value)


def _source(text: str) -> str:
    if text not in ("environment", "builtin", "pool") and not re.fullmatch(r"mcp:.+", text):
        raise ValueError("should be 'environment', 'builtin', 'pool' or 'mcp:<server>'")
    return text


def _one_zero(value: float) -> float:
    """-0.0 equals 0.0 and would have another digest."""
    return value + 0.0


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"should name each once ({', '.join(map(repr, twice))})")
    return values


# A TOML array is a list, which a strict tuple would refuse.
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Text, ...], Field(strict=False), AfterValidator(_once)]
Regex = Annotated[str, AfterValidator(_regex)]
JsonSchema = Annotated[dict[str, Any], AfterValidator(_json_schema)]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""A name that stands in a path and, for tools, in a model's call."""
Table = Annotated[dict[Key, Named], AfterValidator(_named)]
"""Sections by name, in the alphabet's order."""
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class RouterConfig(Part):
    """How a turn finds its specialist."""

    system: str = Field(description="system prompt of the route hop, run on L0")
    default: str = Field(description="specialist for a vague turn, and for one whose route failed")
    text_tokens: int = Field(
        512, gt=0, description="longest turn that is classified whole, tokens; else both its ends"
    )


class SpecialistConfig(Part):
    """How one specialist is prompted and sampled, and through what it acts."""

    name: Text = Field(description="the router's canonical label for it")
    system: str = Field(description="system prompt, put before every conversation")
    max_tokens: int = Field(gt=0, description="longest response, tokens")
    temperature: Annotated[float, AfterValidator(_one_zero)] = Field(
        ge=0, description="in serving; training sets its own"
    )
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus: share of probability sampled from")
    stop: Names = Field((), description="texts that end a response")
    surface: Surface = Field("functions", description="how it acts: tool calls, Python, or a UI")
    tools: Names = Field((), description="names in `tools` that it may use")
    skills: Names = Field((), description="names in `skills` that it may load")
    max_rounds: int = Field(8, gt=0, description="model calls in a turn")
    result_chars: int = Field(
        2000, gt=0, description="characters of results that go back to the model, a round"
    )
    tool_format: ToolFormat = Field("hermes", description="how calls are written in text")


class ToolConfig(Part):
    """One tool of the allowlist, as the model sees it."""

    description: str = Field(description="what the model reads of it")
    parameters: JsonSchema = Field(description="JSON Schema of its arguments, an object")
    source: Annotated[str, AfterValidator(_source)] = Field(
        description="who gives it: environment, builtin, pool, or mcp: and a server's name"
    )


class SkillConfig(Part):
    """A named text that is loaded when it is used."""

    description: str = Field(description="what the model reads before it is loaded")
    text: Text = Field(description="what is loaded")
    trigger: Regex = Field(
        "", description="regex on the user's text that loads it; empty: only when asked for"
    )


class McpConfig(Part):
    """One MCP server: a command that speaks over stdio, or a URL of streamable HTTP."""

    command: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        (), description="program and arguments of a stdio server"
    )
    url: str = Field("", description="address of a streamable-HTTP server")
    env: Annotated[tuple[Variable, ...], Field(strict=False), AfterValidator(_once)] = Field(
        (), description="names of variables that a stdio server is given"
    )
    timeout_s: float = Field(30.0, gt=0, description="longest call, seconds")

    @model_validator(mode="after")
    def _one_way(self) -> "McpConfig":
        if bool(self.command) == bool(self.url):
            raise ValueError("should have either a command or a url")
        if self.url and not re.match(r"https?://[^/\s]+", self.url):
            raise ValueError("url should be an http:// or https:// address")
        if self.url and self.env:
            raise ValueError("env is of a command; a url has none")
        return self


class HookConfig(Part):
    """One declarative check or rewrite; no code."""

    name: Key = Field(description="its name, once in a document")
    when: Event = Field(description="the moment it is asked")
    specialists: Names = Field((), description="whose turns; empty: all")
    tools: Names = Field((), description="of which tools' calls; empty: all")
    pattern: Regex = Field(description="regex searched for in the text of the moment")
    negate: bool = Field(False, description="act where the pattern is not found")
    action: Action = Field(description="what happens")
    text: str = Field("", description="reason, replacement, note or request of the action")
    safety: bool = Field(False, description="a safety boundary: changes wait for a person")

    @model_validator(mode="after")
    def _fits(self) -> "HookConfig":
        if self.tools and self.when not in ("before_tool", "after_tool"):
            raise ValueError(f"tools are of before_tool and after_tool, not of {self.when}")
        if self.action == "continue" and self.when != "before_stop":
            raise ValueError(f"continue is an action of before_stop, not of {self.when}")
        if self.action == "replace" and self.negate:
            raise ValueError("replace has nothing to replace where negate is set")
        if self.action in ("note", "continue") and not self.text:
            raise ValueError(f"{self.action} should have a text")
        return self


class MemoryConfig(Part):
    """What of earlier turns a specialist is shown."""

    summary_tokens: int = Field(
        192,
        gt=0,
        description="longest summary of a turn, tokens; a shorter answer stands for itself",
    )
    summary_request: Text = Field(
        "Sum up your last answer for a colleague: what was asked, and what came of it.",
        description="what a specialist is asked after a long answer; only others see what it says",
    )
    keep_turns: int = Field(0, ge=0, description="own turns kept in full; 0: all")


class SessionConfig(Part):
    """Limits of one session."""

    max_turns: int = Field(64, gt=0, description="turns of the user")
    context_tokens: int = Field(0, ge=0, description="longest prompt, tokens; 0: the model's")
    turn_s: float = Field(120.0, gt=0, description="longest turn, seconds")


class WorkspaceConfig(Part):
    """Limits of the sandbox that model-written code runs in."""

    cpu_s: int = Field(5, gt=0, description="CPU time of one run, seconds")
    wall_s: float = Field(20.0, gt=0, description="longest run, seconds")
    memory_mib: int = Field(256, gt=0, description="memory, MiB")
    processes: int = Field(0, ge=0, description="processes it may start")
    file_mib: int = Field(16, ge=0, description="largest file, MiB")
    open_files: int = Field(16, gt=0, description="files open at once")
    network: bool = Field(False, description="may it reach the network")
    level: Names = Field((), description="kinds of isolation that must be active")


class PoolConfig(Part):
    """When a helper that the model wrote becomes callable."""

    trials: int = Field(5, gt=0, description="private trials on held-out references")
    passes: int = Field(5, gt=0, description="trials that must be passed")
    demote_after: int = Field(1, gt=0, description="failing re-trials that demote a tool")
    demote_sessions: int = Field(
        3, gt=0, description="sessions in a row, with every use of it raising, that demote a tool"
    )
    retrial_uses: int = Field(
        20, gt=0, description="uses after which a tool is tried again; at once where one raised"
    )

    @model_validator(mode="after")
    def _can_pass(self) -> "PoolConfig":
        if self.passes > self.trials:
            raise ValueError(f"passes should be at most trials ({self.trials})")
        return self
