"""A base's chat template: the ids that begin a conversation, and the ids that follow a response.

What a model sampled is never rendered: later messages are rendered behind a placeholder response,
and only what the template writes after that is taken. So it doesn't matter what a template makes
of earlier responses (Qwen3's strips their reasoning).
"""

import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from jinja2.exceptions import TemplateError

from macaron.errors import ConfigError, MacaronError
from macaron.harness.cut import well_formed
from macaron.harness.placeholder import (
    PLACEHOLDERS,
    QUESTION,
    any_call,
    any_result,
    arguments_object,
    exchange,
    without_tools,
)
from macaron.harness.spelling import Spelling
from macaron.messages import Message, ToolCall

_UNLIMITED = 1 << 30
_HEADS = 256
"""Most beginnings of a rendering that are kept."""


class TemplateRefusal(MacaronError):  # noqa: N818  (the template's word, passed on)
    """The chat template does not take this conversation."""


class ChatTemplate:
    """A tokenizer's chat template. Get it from `template_of`; safe for threads."""

    def __init__(self, tokenizer: Any) -> None:
        """
        Raises:
            ConfigError: the tokenizer has no chat template.
        """
        if not tokenizer.chat_template:
            raise ConfigError(
                "the tokenizer has no chat template",
                where=str(tokenizer.name_or_path),
                mend="give a base with a chat template",
            )
        self.tokenizer = tokenizer
        # A tokenizer sets its own state while it encodes.
        self._lock = threading.RLock()
        self._spelling = Spelling(tokenizer)
        self._heads: dict[tuple[str, ...], tuple[int, ...]] = {}

    def start(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """Ids of a conversation up to where the response begins.

        Args:
            messages: the system prompt first, where there is one.
            tools: in OpenAI's form; the template says where they stand.
        """
        if self._lacks_tools(messages):
            messages = without_tools(messages)
        return self._encode(messages, tools=[dict(tool) for tool in tools] or None)

    def follow(
        self, messages: Sequence[Message], calls: Sequence[ToolCall] = (), last: int | None = None
    ) -> list[int]:
        """Ids to put behind a response, up to where the next response begins.

        Args:
            messages: what is said after the response: results of its calls, or a user's turn.
            calls: those of the response, where `messages` are their results.
            last: the response's last id; an end of turn that was sampled is not put again.
        """
        ids = self._tail(messages, calls)
        return ids[1:] if ids and ids[0] == last else ids

    def text(self, ids: Sequence[int]) -> str:
        """What a response says, without special tokens, but with the marks of tool calls."""
        with self._lock:
            if not self._marks:
                return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))
            kept = [i for i in ids if i not in self._special or i in self._marks]
            return str(self.tokenizer.decode(kept, skip_special_tokens=False))

    def plain_ids(self, text: str) -> list[int]:
        """Ids of a text in which nothing is a special token."""
        with self._lock:
            encode = self.tokenizer.encode
            return list(encode(text, add_special_tokens=False, split_special_tokens=True))

    def marked_ids(self, text: str) -> list[int]:
        """Ids of a text of our own, in which a mark of tool calls is the token that it is."""
        with self._lock:
            return list(self.tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a response: the tokenizer's end, and what the template puts after one."""
        ends = [self.tokenizer.eos_token_id, self._end, *self._tail([QUESTION])[:1]]
        if self._has_tool_role:
            ends += self._tail([any_result()], [any_call()])[:1]
        return tuple(dict.fromkeys(i for i in ends if i is not None and i in self._special))

    @cached_property
    def window(self) -> int | None:
        """The longest sequence that the tokenizer knows of, tokens."""
        length = self.tokenizer.model_max_length
        return int(length) if length and length < _UNLIMITED else None

    @cached_property
    def _special(self) -> frozenset[int]:
        decoder = self.tokenizer.added_tokens_decoder
        named = {i for i, token in decoder.items() if token.special}
        return frozenset(named | set(self.tokenizer.all_special_ids))

    @cached_property
    def _marks(self) -> frozenset[int]:
        """Special tokens that mark what a response consists of, and so belong to its text."""
        wanted = re.compile(r"</?(tool_call|think)>")
        decoder = self.tokenizer.added_tokens_decoder
        return frozenset(i for i in self._special if wanted.fullmatch(str(decoder.get(i, ""))))

    @cached_property
    def _end(self) -> int | None:
        """The special token that ends a response when nothing follows it."""
        _, rest = self._rest([], ())
        return next((i for i in rest if i in self._special), None)

    @cached_property
    def _has_tool_role(self) -> bool:
        """Whether the template shows a tool's result as such."""
        try:
            one, other = (self._rest([any_result(text)], [any_call()]) for text in ("7", "8"))
        except TemplateRefusal:
            return False
        return one != other

    @cached_property
    def _takes_calls(self) -> bool:
        """Whether a response may make several calls."""
        try:
            self._encode([*exchange(PLACEHOLDERS[0], [any_call(), any_call()]), any_result()])
        except TemplateRefusal:
            return False
        return True

    @cached_property
    def shows_tools(self) -> bool:
        """Whether the template tells the model of the tools that it is given."""
        function = {"name": "f", "description": "", "parameters": {"type": "object"}}
        spec = {"type": "function", "function": function}
        return self.start([QUESTION], [spec]) != self.start([QUESTION])

    @cached_property
    def _reads_objects(self) -> bool:
        """Whether the template wants a call's arguments as an object: a text it writes as JSON."""
        message: Message = {"role": "assistant", "content": "", "tool_calls": [any_call('{"k":7}')]}
        try:
            with self._lock:
                text = self.tokenizer.apply_chat_template([QUESTION, message], tokenize=False)
        except (TemplateError, TypeError):
            return True
        return '\\"k\\"' in text

    def _lacks_tools(self, messages: Sequence[Message]) -> bool:
        return any(m["role"] == "tool" for m in messages) and not self._has_tool_role

    def _tail(self, messages: Sequence[Message], calls: Sequence[ToolCall] = ()) -> list[int]:
        """What stands behind any response that `messages` follow, its end of turn first."""
        if self._lacks_tools(messages):
            messages, calls = without_tools(messages), ()
        if len(calls) > 1 and not self._takes_calls:
            calls = calls[:1]
        key = (messages[0]["role"], *(call["function"]["name"] for call in calls))
        if head := self._heads.get(key):
            ids = self._encode([*exchange(PLACEHOLDERS[0], calls), *messages])
            # The same ids up to an end of turn: no need to render the other placeholder.
            if tuple(ids[: len(head)]) == head:
                return ids[len(head) :]
        return self._learn(key, messages, calls)

    def _learn(
        self, key: tuple[str, ...], messages: Sequence[Message], calls: Sequence[ToolCall]
    ) -> list[int]:
        ids, rest = self._rest(messages, calls)
        first = rest.index(self._end) if self._end in rest else None
        if first is None:
            first = next((n for n, i in enumerate(rest) if i in self._special), None)
        if first is not None and len(self._heads) < _HEADS:
            self._heads[key] = tuple(ids[: len(ids) - len(rest) + first])
        return rest[first or 0 :]

    def _rest(
        self, messages: Sequence[Message], calls: Sequence[ToolCall]
    ) -> tuple[list[int], list[int]]:
        """A rendering, and the end of it that is alike behind two different responses."""
        one, other = (
            self._encode([*exchange(words, calls), *messages], generate=bool(messages))
            for words in PLACEHOLDERS
        )
        same = 0
        for a, b in zip(reversed(one), reversed(other), strict=False):
            if a != b:
                break
            same += 1
        return one, one[len(one) - same :]

    def _encode(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None = None,
        generate: bool = True,
    ) -> list[int]:
        fitted = [self._fit(message) for message in messages]
        # A text that spells one of the template's tokens must not become it. To see to that costs
        # as much as to render, and hardly any text does.
        spelled = tools is not None or any(map(self._spelling.found_in, fitted))
        try:
            with self._lock:
                encoded = self.tokenizer.apply_chat_template(
                    fitted,
                    tools=tools,
                    add_generation_prompt=generate,
                    tokenize=True,
                    return_dict=False,
                    sanitize_control_tokens=spelled,
                )
        except TemplateError as error:
            raise TemplateRefusal(
                f"the chat template refuses the conversation: {error}",
                where=str(self.tokenizer.name_or_path),
                mend="give messages in an order that it takes",
            ) from error
        return list(encoded)

    def _fit(self, message: Message) -> Mapping[str, Any]:
        fitted: dict[str, Any] = {**message, "content": well_formed(message["content"] or "")}
        if message.get("tool_calls") and self._reads_objects:
            fitted["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": arguments_object(call)}}
                for call in message["tool_calls"]
            ]
        return fitted


@lru_cache(maxsize=8)
def template_of(tokenizer: Any) -> ChatTemplate:
    """The chat template of a transformers tokenizer; one for each tokenizer.

    Raises:
        ConfigError: it has none.
    """
    return ChatTemplate(tokenizer)
