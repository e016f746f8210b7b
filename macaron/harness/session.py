"""A session: turns of specialists, from a user's message to an answer, as a state machine.

It samples nothing itself: `begin` and `advance` say what to sample next, so that a driver can
batch many sessions. A turn is in the history exactly when it was delivered.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from macaron.engines.base import Completion
from macaron.engines.randomness import derive
from macaron.errors import ConfigError
from macaron.harness.acting import make_calls
from macaron.harness.allowlist import Sources
from macaron.harness.calls import Parsed, to_openai, without_thought
from macaron.harness.hooks import Hooks
from macaron.harness.ids import call_id
from macaron.harness.namespace import Namespace
from macaron.harness.past import Past, as_a_user_saw, folded
from macaron.harness.sampling import params_of
from macaron.harness.space import SandboxFailedError, Space
from macaron.harness.speech import Speech
from macaron.harness.stopping import end_of_response
from macaron.harness.stops import FAILED, Stop
from macaron.harness.template import template_of
from macaron.harness.turn import OpenTurn, Request, Turn
from macaron.harness.use import ToolBrokeError, TurnTools
from macaron.harness.view import BARE, Setting, View, open_view
from macaron.harness.wishes import NO_WISHES, Wishes
from macaron.hcp.document import HCP
from macaron.messages import Message


class Session:
    """One user's conversation. Not for two threads at once; close it at its end."""

    def __init__(
        self,
        tokenizer: object,
        hcp: HCP,
        sources: Sources | None = None,
        *,
        seed: int = 0,
        temperature: float | None = None,
        namespaces: Callable[[int], Namespace] | None = None,
        window: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_end: Callable[[], None] = lambda: None,
        past: Sequence[Past] = (),
    ) -> None:
        """
        Args:
            tokenizer: the base's, of transformers, with a chat template.
            hcp: the harness.
            sources: what the environment, MCP servers, the pool and the builtins provide.
            seed: of all that is sampled.
            temperature: in place of the HCP's, for training; then every token can be drawn, since
                the learner's log-probabilities are of the whole distribution.
            namespaces: opens a namespace from a seed, such as a pool's `acquire`; called when code
                first runs. Without it, one is begun then, with the HCP's limits.
            window: longest prompt and response together, tokens; else the tokenizer's.
            clock: seconds.
            at_end: called when the session is closed.
            past: delivered turns of a session that goes on here. What its code had in its namespace
                is lost, and the specialist is told so.

        Raises:
            ConfigError: the tokenizer has no chat template.
        """
        self.hcp, self.seed, self.temperature = hcp, seed, temperature
        self.past = list(past)
        """Delivered turns."""
        self._template = template_of(tokenizer)
        self._window = window or self._template.window
        acquire = namespaces or (lambda seed: Namespace(hcp.workspace, seed=seed))
        self._space = Space(lambda: acquire(derive(seed, "namespace")))
        self._space.lost = any(turn.acted and self._runs_code(turn.specialist) for turn in past)
        self._sources, self._clock = sources or {}, clock
        self._at_end = at_end
        self._views: dict[tuple[str, str], View] = {}
        self._closed = False
        self._open: OpenTurn | None = None
        self._finished: Turn | None = None

    @property
    def history(self) -> list[Message]:
        """What was said in delivered turns, as a user saw it."""
        return as_a_user_saw(self.past)

    @property
    def turns(self) -> int:
        """Delivered turns."""
        return len(self.past)

    def begin(
        self,
        messages: Sequence[Message],
        specialist: str,
        wishes: Wishes = NO_WISHES,
        setting: Setting = BARE,
    ) -> Request | Turn:
        """Begins a turn.

        Args:
            messages: what is new since the last turn, a user's message at the end; in the first
                turn, all that was said before.
            specialist: key of the HCP's `specialists`.
            wishes: what this turn is sampled with otherwise than the HCP says.
            setting: what the client brings beside its messages.

        Returns:
            What to sample, or the turn where it ended without that.

        Raises:
            ConfigError: no such specialist, or its tools are not what the HCP says.
            ValueError: the turn before is neither delivered nor undone, or the session is closed.
        """
        if self._closed:
            raise ValueError("the session is closed")
        if self._open is not None:
            raise ValueError("the turn before is neither delivered nor undone")
        if specialist not in self.hcp.specialists:
            raise ConfigError(
                f"no specialist {specialist!r}", mend=f"there are {', '.join(self.hcp.specialists)}"
            )
        turn = self._open_turn(messages, specialist, setting, wishes)
        try:
            return self._begin(turn)
        except Exception:
            self.undo()
            raise

    def advance(self, completion: Completion) -> Request | Turn:
        """Takes the response that was sampled for the last request.

        Returns:
            What to sample next, or the turn where it has ended.

        Raises:
            ValueError: no response is due.
        """
        turn = self._due()
        view = turn.view
        ids, stops = completion.token_ids, turn.stops
        kept, said, stopped = end_of_response(view.template, ids, stops)
        view.transcript.sampled(ids[:kept], completion.logprobs[:kept])
        text = without_thought(turn.opening + said)
        turn.rounds += 1
        if self._late(turn):
            return self._end("time")
        if completion.stop_reason == "length" and not stopped:
            return self._answer(text, "length")
        parsed = view.surface.read(text)
        return self._act(parsed) if parsed.calls else self._stop(text)

    def deliver(self) -> None:
        """The turn was shown to the user: it enters the history.

        Raises:
            ValueError: there is no finished turn, or it failed.
        """
        if self._open is None or self._finished is None:
            raise ValueError("there is no finished turn to deliver")
        turn = self._open
        past = turn.past(self._finished.answer)
        self.past.append(past)
        if turn.sampled:
            turn.view.saw(past)
        self._space.commit()
        self._open = self._finished = None

    def undo(self) -> None:
        """The turn, finished or not, leaves no trace in the session."""
        if self._open is not None:
            self._open.view.transcript.cut(self._open.mark)
            self._open.view.skills.loaded = self._open.loaded
            self._space.restore()
        self._open = self._finished = None

    def summarise(self, turn: int, summary: str) -> None:
        """Sets what stands for a long answer, before any specialist but its own has seen it.

        Args:
            turn: its number in the past.
            summary: the text.
        """
        self.past[turn] = replace(self.past[turn], summary=summary)

    def untold(self, specialist: str) -> list[int]:
        """Turns that the specialist is about to be told of and whose answers are too long for it.

        A turn that stays so is told in full.
        """
        own = [n for n, turn in enumerate(self.past) if turn.specialist == specialist and turn.tail]
        fold = folded(len(own), self.hcp.memory.keep_turns)
        in_full = set(own[fold:])
        return [n for n, turn in enumerate(self.past) if n not in in_full and self.is_long(turn)]

    def is_long(self, turn: Past) -> bool:
        """Whether a turn has to be summed up for others, and is not yet."""
        if turn.summary is not None or turn.calls:
            return False
        return len(self._template.plain_ids(turn.answer)) > self.hcp.memory.summary_tokens

    def speech(self) -> Speech:
        """What may be shown of the response that is being sampled, while it is.

        Raises:
            ValueError: no response is due.
        """
        return self._due().speech()

    def skills(self, specialist: str, setting: Setting = BARE) -> frozenset[str]:
        """Those that a specialist has been given."""
        return self._view(specialist, setting).skills.loaded

    @property
    def said(self) -> tuple[Message, ...]:
        """The present turn's messages so far, the given ones first; empty between turns."""
        return tuple(self._open.messages) if self._open is not None else ()

    def use(self, name: str, arguments: dict[str, Any]) -> Any:
        """A call that a helper makes within the present turn: through the hooks, as any other.

        Raises:
            ToolFault: the call is wrong, refused, or the tool says no.
        """
        return self._due().tools.use(name, arguments).value

    def close(self) -> None:
        """Ends the session; an undelivered turn is undone."""
        self.undo()
        if not self._closed:
            self._closed = True
            self._space.close()
            self._at_end()

    def _begin(self, turn: OpenTurn) -> Request | Turn:
        if self.turns >= self.hcp.session.max_turns:
            return self._end("turns")
        heard = turn.view.hear(turn.messages, turn.hooks)
        turn.messages, turn.given = heard.messages, heard.given
        turn.heard = tuple(heard.messages)
        if heard.refusal is not None:
            turn.messages.append({"role": "assistant", "content": heard.refusal})
            return self._end("refused", heard.refusal)
        turn.view.extend(turn.messages)
        turn.sampled, turn.start = True, len(turn.view.transcript)
        if turn.wishes.opening:
            turn.view.transcript.give(self._template.marked_ids(turn.wishes.opening))
        return self._request()

    def _open_turn(
        self, messages: Sequence[Message], specialist: str, setting: Setting, wishes: Wishes
    ) -> OpenTurn:
        view, hooks = self._view(specialist, setting), Hooks(self.hcp.hooks, specialist)
        view.recall(self.past)
        self._open = OpenTurn(
            specialist=specialist,
            view=view,
            hooks=hooks,
            tools=TurnTools(view.box, hooks),
            number=self.turns,
            started=self._clock(),
            given=list(messages),
            messages=list(messages),
            mark=len(view.transcript),
            loaded=view.skills.loaded,
            wishes=wishes,
        )
        return self._open

    def _view(self, specialist: str, setting: Setting) -> View:
        key = specialist, setting.key
        if key not in self._views:
            self._views[key] = open_view(
                self.hcp, specialist, self._template, self._sources, self._space, setting
            )
        return self._views[key]

    def _runs_code(self, specialist: str) -> bool:
        config = self.hcp.specialists.get(specialist)
        return config is not None and config.surface == "repl"

    def _request(self) -> Request | Turn:
        turn = self._due()
        prompt, config = turn.view.transcript.ids, turn.view.config
        longest = self.hcp.session.context_tokens or self._window
        room = self._window - len(prompt) if self._window else config.max_tokens
        if room < 1 or (longest and len(prompt) > longest):
            return self._end("context")
        params = params_of(turn, self.seed, self.temperature, room)
        return Request(tuple(prompt), turn.specialist, params)

    def _act(self, parsed: Parsed) -> Request | Turn:
        """Makes a response's calls and gives their results back."""
        turn = self._due()
        calls = to_openai(parsed.calls, lambda n: call_id(turn.number, turn.rounds, n))
        turn.messages.append({"role": "assistant", "content": parsed.content, "tool_calls": calls})
        if turn.rounds >= turn.view.config.max_rounds:
            # Nobody would read the results, so the calls are not made.
            unreadable = all(call.error for call in parsed.calls)
            for call in parsed.calls:
                if call.error:
                    turn.tools.unreadable(call.error)
            return self._end("malformed" if unreadable else "rounds")
        try:
            texts = make_calls(turn, parsed, calls)
        except ToolBrokeError as error:
            return self._end("tool", error=str(error))
        except SandboxFailedError as error:
            return self._end("sandbox", error=str(error))
        if self._late(turn):
            return self._end("time")
        results: list[Message] = [
            {"role": "tool", "content": text, "tool_call_id": call["id"]}
            for call, text in zip(calls, texts, strict=True)
            if text is not None
        ]
        turn.messages += results
        if turn.open_calls:
            turn.calls, turn.results = tuple(calls), tuple(results)
            return self._end("calls", parsed.before)
        turn.view.go_on(results, calls)
        return self._request()

    def _stop(self, text: str) -> Request | Turn:
        """The specialist would stop with this text."""
        turn = self._due()
        ruling = turn.hooks.ask("before_stop", text)
        if ruling.refusal is not None:
            return self._answer(ruling.refusal, "refused")
        if ruling.request is None or turn.rounds >= turn.view.config.max_rounds:
            return self._answer(ruling.noted, "answer")
        request: Message = {"role": "user", "content": ruling.request}
        turn.messages += [{"role": "assistant", "content": text}, request]
        turn.view.go_on([request])
        return self._request()

    def _answer(self, text: str, stop: Stop) -> Turn:
        turn = self._due()
        ruling = turn.hooks.ask("after_turn", text)
        refused = ruling.refusal is not None
        answer = ruling.noted if ruling.refusal is None else ruling.refusal
        turn.messages.append({"role": "assistant", "content": answer})
        return self._end("refused" if refused else stop, answer)

    def _end(self, stop: Stop, answer: str = "", error: str = "") -> Turn:
        self._finished = self._due().close(stop, answer, error)
        finished = self._finished
        if stop in FAILED:
            self.undo()
        return finished

    def _due(self) -> OpenTurn:
        if self._open is None or self._finished is not None:
            raise ValueError("no response is due: begin a turn first")
        return self._open

    def _late(self, turn: OpenTurn) -> bool:
        return self._clock() - turn.started > self.hcp.session.turn_s
