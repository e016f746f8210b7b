"""A session: turns of specialists, from a user's message to an answer, as a state machine.

It samples nothing itself: `begin` and `advance` say what to sample next, so that a driver can
batch many sessions. A turn is in the history exactly when it was delivered.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from macaron.engines.base import Completion, SampleParams
from macaron.engines.randomness import derive
from macaron.errors import ConfigError
from macaron.harness.allowlist import Sources
from macaron.harness.calls import Parsed, to_openai, without_thought
from macaron.harness.hooks import Hooks
from macaron.harness.ids import call_id
from macaron.harness.namespace import Namespace
from macaron.harness.space import SandboxFailedError, Space
from macaron.harness.stopping import end_of_response, stop_ids
from macaron.harness.stops import FAILED, Stop
from macaron.harness.template import template_of
from macaron.harness.turn import OpenTurn, Request, Turn
from macaron.harness.use import ToolBrokeError, TurnTools
from macaron.harness.view import View, open_view
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

        Raises:
            ConfigError: the tokenizer has no chat template.
        """
        self.hcp, self.seed, self.temperature = hcp, seed, temperature
        self.history: list[Message] = []
        """What was said in delivered turns, as a user saw it."""
        self.turns = 0
        """Delivered turns."""
        self._template = template_of(tokenizer)
        self._window = window or self._template.window
        acquire = namespaces or (lambda seed: Namespace(hcp.workspace, seed=seed))
        self._space = Space(lambda: acquire(derive(seed, "namespace")))
        self._sources, self._clock = sources or {}, clock
        self._at_end = at_end
        self._views: dict[str, View] = {}
        self._closed = False
        self._open: OpenTurn | None = None
        self._finished: Turn | None = None

    def begin(self, messages: Sequence[Message], specialist: str) -> Request | Turn:
        """Begins a turn.

        Args:
            messages: what is new since the last turn, a user's message at the end; in the first
                turn, all that was said before.
            specialist: key of the HCP's `specialists`.

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
        turn = self._open_turn(messages, specialist)
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
        turn.rounds += 1
        view = turn.view
        ids, stops = completion.token_ids, view.config.stop
        kept, said, stopped = end_of_response(view.template, ids, stops)
        view.transcript.sampled(ids[:kept], completion.logprobs[:kept])
        text = without_thought(said)
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
        answer: Message = {"role": "assistant", "content": self._finished.answer}
        self.history += [*turn.given, answer]
        self.turns += 1
        if turn.sampled:
            turn.view.seen = len(self.history)
        self._space.commit()
        self._open = self._finished = None

    def undo(self) -> None:
        """The turn, finished or not, leaves no trace in the session."""
        if self._open is not None:
            self._open.view.transcript.cut(self._open.mark)
            self._open.view.skills.loaded = self._open.loaded
            self._space.restore()
        self._open = self._finished = None

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
        if heard.refusal is not None:
            turn.messages.append({"role": "assistant", "content": heard.refusal})
            return self._end("refused", heard.refusal)
        turn.view.extend([*self.history[turn.view.seen :], *turn.messages])
        turn.sampled = True
        return self._request()

    def _open_turn(self, messages: Sequence[Message], specialist: str) -> OpenTurn:
        if specialist not in self._views:
            self._views[specialist] = open_view(
                self.hcp, specialist, self._template, self._sources, self._space
            )
        view, hooks = self._views[specialist], Hooks(self.hcp.hooks, specialist)
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
        )
        return self._open

    def _request(self) -> Request | Turn:
        turn = self._due()
        prompt, config = turn.view.transcript.ids, turn.view.config
        longest = self.hcp.session.context_tokens or self._window
        room = self._window - len(prompt) if self._window else config.max_tokens
        if room < 1 or (longest and len(prompt) > longest):
            return self._end("context")
        params = SampleParams(
            max_tokens=min(config.max_tokens, room),
            temperature=config.temperature if self.temperature is None else self.temperature,
            seed=derive(self.seed, turn.number, turn.rounds),
            stop_ids=stop_ids(turn.view.template, config.stop),
            top_p=config.top_p if self.temperature is None else 1.0,
        )
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
            texts = turn.view.surface.act(parsed, turn.tools)
        except ToolBrokeError as error:
            return self._end("tool", error=str(error))
        except SandboxFailedError as error:
            return self._end("sandbox", error=str(error))
        if self._late(turn):
            return self._end("time")
        results: list[Message] = [
            {"role": "tool", "content": text, "tool_call_id": call["id"]}
            for call, text in zip(calls, texts, strict=True)
        ]
        turn.messages += results
        transcript = turn.view.transcript
        transcript.give(turn.view.template.follow(results, calls, transcript.last))
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
        turn.view.extend([request])
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
