"""A view: the session as one specialist sees it, with the means it has.

It is rebuilt from the session's past by nothing but that past: own turns in full, those of others
as they are told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from macaron.files import canonical_json
from macaron.harness.allowlist import Sources, tool_box, with_tools
from macaron.harness.calls import THOUGHT_CLOSE, THOUGHT_OPEN
from macaron.harness.functions import Functions
from macaron.harness.hooks import Hooks
from macaron.harness.namespace import Namespace
from macaron.harness.past import Past, as_others_see, folded, left_open
from macaron.harness.repl import Repl
from macaron.harness.skills import Skills
from macaron.harness.space import Space, shell_tool
from macaron.harness.surface import Introduction, Surface
from macaron.harness.template import ChatTemplate
from macaron.harness.tools import Tool, ToolBox
from macaron.harness.transcript import Transcript
from macaron.hcp.document import HCP, SpecialistConfig
from macaron.messages import Message, ToolCall

_LOOK_BACK = 8
"""Tokens at the end of a prompt that may begin a thought."""
REFUSED = "(a message that was refused)"
"""What specialists see in later turns of a user's text that a hook refused."""


@dataclass(frozen=True)
class Heard:
    """A turn's messages once hooks and skills have had their say."""

    messages: list[Message]
    """As the specialist sees them."""
    given: list[Message]
    """As other specialists will: without notes and skills."""
    refusal: str | None = None
    """Said to the user where a hook refused the turn."""


@dataclass(frozen=True)
class Setting:
    """What a client brings to a turn beside its messages."""

    instructions: str = ""
    """Put behind the specialist's system prompt."""
    tools: tuple[Tool, ...] = ()
    """Functions that the client runs itself; they stand behind the HCP's."""

    @property
    def key(self) -> str:
        """The same for the same setting: the view of another one begins otherwise."""
        return canonical_json([self.instructions, [tool.spec for tool in self.tools]])


BARE = Setting()


@dataclass
class View:
    """One specialist's side of a session."""

    specialist: str
    config: SpecialistConfig
    template: ChatTemplate
    surface: Surface
    box: ToolBox
    skills: Skills
    introduction: Introduction
    keep: int = 0
    """Own turns that are kept in full, at least; 0: all."""
    handed: frozenset[str] = frozenset()
    """Names of the client's tools."""
    transcript: Transcript = field(default_factory=Transcript)
    seen: int = 0
    """Turns of the past that the transcript and what waits hold."""
    waiting: list[Message] = field(default_factory=list)
    """What was told since the transcript's end."""
    calls: tuple[ToolCall, ...] = ()
    """Of the transcript's last response, where the client makes them."""
    results: tuple[Message, ...] = ()
    """Those that are there already."""
    unanswered: str = ""
    folded: int = 0
    """Own turns that are told as others see them."""

    def recall(self, past: Sequence[Past]) -> None:
        """Takes up what it has not seen of the past."""
        own = [turn for turn in past if self._is_own(turn)]
        if (fold := folded(len(own), self.keep)) != self.folded:
            self._forget(fold)
        before = sum(self._is_own(turn) for turn in past[: self.seen])
        for turn in past[self.seen :]:
            in_full = self._is_own(turn) and before >= self.folded
            before += self._is_own(turn)
            self._reread(turn) if in_full else self._be_told(turn)
        self.seen = len(past)

    def saw(self, turn: Past) -> None:
        """The turn that just ended is the past's next; the transcript holds it."""
        self.seen += 1
        self.waiting, self.unanswered = [], ""
        self.calls, self.results = turn.calls, turn.results

    def _is_own(self, turn: Past) -> bool:
        return turn.specialist == self.specialist and bool(turn.tail)

    def _forget(self, fold: int) -> None:
        self.transcript.cut(0)
        self.seen, self.waiting, self.folded = 0, [], fold
        self.calls, self.results, self.unanswered = (), (), ""

    def _reread(self, turn: Past) -> None:
        self.extend(turn.heard)
        self.transcript.give(turn.tail)
        self.skills.loaded = turn.skills
        self.waiting, self.calls, self.results = [], turn.calls, turn.results
        self.unanswered = ""

    def _be_told(self, turn: Past) -> None:
        self.waiting += as_others_see(turn, self.unanswered)
        self.unanswered = left_open(turn)

    @property
    def thinks(self) -> bool:
        """Whether the transcript ends within a thought that the template began."""
        end = self.template.text(self.transcript.ids[-_LOOK_BACK:])
        return THOUGHT_CLOSE not in end.rpartition(THOUGHT_OPEN)[2] and THOUGHT_OPEN in end

    def hear(self, messages: Sequence[Message], hooks: Hooks) -> Heard:
        """Puts hooks and skills to the user's last message; skills become loaded."""
        place = _last_user(messages)
        if place is None:
            return Heard([*messages], [*messages])
        ruling = hooks.ask("before_turn", messages[place]["content"])
        if ruling.refusal is not None:
            given = _with_text(messages, place, REFUSED)
            return Heard([*messages], given, ruling.refusal)
        skills = self.skills.triggered(ruling.text)
        heard = "\n\n".join(part for part in (ruling.noted, skills) if part)
        given = _with_text(messages, place, ruling.text)
        return Heard(_with_text(messages, place, heard), given)

    def go_on(self, messages: Sequence[Message], calls: Sequence[ToolCall] = ()) -> None:
        """Puts messages behind a response of the present turn, such as its calls' results."""
        self.transcript.give(self.template.follow(messages, calls, self.transcript.last))

    def extend(self, messages: Sequence[Message]) -> None:
        """Begins a turn: what waits and the new messages, up to where a response begins."""
        answers = bool(messages) and messages[0]["role"] == "tool" and bool(self.calls)
        if answers:
            messages = [*self.results, *messages]
        else:
            open_end = [_said(self.unanswered)] if self.unanswered and self.waiting else []
            messages = [*self.waiting, *open_end, *messages]
        if len(self.transcript):
            calls = self.calls if answers else ()
            ids = self.template.follow(messages, calls, self.transcript.last)
        else:
            first = first_messages(self.introduction.system, messages)
            ids = self.template.start(first, self.introduction.tools)
        self.transcript.give(ids)


def open_view(
    hcp: HCP,
    specialist: str,
    template: ChatTemplate,
    sources: Sources,
    space: Space | None = None,
    setting: Setting = BARE,
) -> View:
    """A specialist's view of a session that it has seen nothing of.

    Args:
        hcp: the harness.
        specialist: key of its `specialists`.
        template: the base's.
        sources: what is provided.
        space: the session's namespace; without it, the view is for looking at only.
        setting: what the client brings.

    Raises:
        ConfigError: its tools are not what the HCP says, or a client's tool has a taken name.
    """
    config, space = hcp.specialists[specialist], space or Space(Namespace)
    skills = Skills({name: hcp.skills[name] for name in config.skills})
    builtins = [*sources.get("builtin", ()), skills.tool(), shell_tool(space, config.result_chars)]
    given = {**sources, "builtin": builtins}
    box = tool_box(hcp, specialist, given)
    surface: Surface
    if config.surface == "repl":
        # Python cannot wait for a client: its tools stay unseen.
        handed, surface = frozenset[str](), Repl(config.result_chars, space)
    else:
        box, handed = with_tools(box, setting.tools), frozenset(t.name for t in setting.tools)
        surface = Functions(config.result_chars, has_tools=bool(len(box)))
    system = "\n\n".join(part for part in (config.system, setting.instructions) if part)
    introduction = surface.introduce(system, box, bool(len(box)) and template.shows_tools)
    keep = hcp.memory.keep_turns
    return View(specialist, config, template, surface, box, skills, introduction, keep, handed)


def first_messages(system: str, messages: Sequence[Message]) -> list[Message]:
    """The conversation with the system prompt, where there is one, before it."""
    return [{"role": "system", "content": system}, *messages] if system else [*messages]


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _last_user(messages: Sequence[Message]) -> int | None:
    return next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "user"), None)


def _with_text(messages: Sequence[Message], place: int, text: str) -> list[Message]:
    changed = list(messages)
    changed[place] = {**changed[place], "content": text}
    return changed
