"""A base's chat template: the ids that begin a conversation, and the ids that follow a response.

What a model sampled is never rendered: later messages are rendered behind a placeholder response,
and only what the template writes after that is taken. So it doesn't matter what a template makes
of earlier responses (Qwen3's strips their reasoning).
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from jinja2.exceptions import TemplateError

from macaron.errors import ConfigError, MacaronError
from macaron.messages import FunctionCall, Message, ToolCall

PLACEHOLDERS = ("0", "1")
"""Two responses: what is rendered alike after them is no part of them."""
_UNLIMITED = 1 << 30


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

    def start(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """Ids of a conversation up to where the response begins.

        Args:
            messages: the system prompt first, where there is one.
            tools: in OpenAI's form; the template says where they stand.
        """
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

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a response: the tokenizer's end, and what the template puts after one."""
        user: Message = {"role": "user", "content": "."}
        ends = [self.tokenizer.eos_token_id, self._end, *self._tail([user])[:1]]
        if self._has_tool_role:
            ends += self._tail([_result()], [_call()])[:1]
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
        tail = self._rest([], ())
        return next((i for i in tail if i in self._special), None)

    @cached_property
    def _has_tool_role(self) -> bool:
        """Whether the template shows a tool's result as such."""
        try:
            shown = self._rest([_result("7")], [_call()]) != self._rest([_result("8")], [_call()])
        except TemplateRefusal:
            return False
        return shown

    @cached_property
    def shows_tools(self) -> bool:
        """Whether the template tells the model of the tools that it is given."""
        question: Message = {"role": "user", "content": "."}
        function = {"name": "f", "description": "", "parameters": {"type": "object"}}
        spec = {"type": "function", "function": function}
        return self.start([question], [spec]) != self.start([question])

    @cached_property
    def _reads_objects(self) -> bool:
        """Whether the template wants a call's arguments as an object: a text it writes as JSON."""
        message: Message = {"role": "assistant", "content": "", "tool_calls": [_call('{"k":7}')]}
        question: Message = {"role": "user", "content": "."}
        try:
            with self._lock:
                text = self.tokenizer.apply_chat_template([question, message], tokenize=False)
        except (TemplateError, TypeError):
            return True
        return '\\"k\\"' in text

    def _tail(self, messages: Sequence[Message], calls: Sequence[ToolCall] = ()) -> list[int]:
        """What stands behind any response that `messages` follow, its end of turn first."""
        if any(m["role"] == "tool" for m in messages) and not self._has_tool_role:
            messages, calls = [_as_user(m) for m in messages], ()
        rest = self._rest(messages, calls)
        if self._end in rest:
            return rest[rest.index(self._end) :]
        special = next((n for n, i in enumerate(rest) if i in self._special), 0)
        return rest[special:]

    def _rest(self, messages: Sequence[Message], calls: Sequence[ToolCall]) -> list[int]:
        """What is rendered alike behind two different responses."""
        one, other = (
            self._encode([*_exchange(words, calls), *messages], generate=bool(messages))
            for words in PLACEHOLDERS
        )
        same = 0
        for a, b in zip(reversed(one), reversed(other), strict=False):
            if a != b:
                break
            same += 1
        return one[len(one) - same :]

    def _encode(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None = None,
        generate: bool = True,
    ) -> list[int]:
        fitted = [self._fit(message) for message in messages]
        try:
            with self._lock:
                # Sanitized: a text that spells one of the template's tokens must not become it.
                encoded = self.tokenizer.apply_chat_template(
                    fitted,
                    tools=tools,
                    add_generation_prompt=generate,
                    tokenize=True,
                    return_dict=False,
                    sanitize_control_tokens=True,
                )
        except TemplateError as error:
            raise TemplateRefusal(
                f"the chat template refuses the conversation: {error}",
                where=str(self.tokenizer.name_or_path),
                mend="give messages in an order that it takes",
            ) from error
        return list(encoded)

    def _fit(self, message: Message) -> Mapping[str, Any]:
        if not message.get("tool_calls") or not self._reads_objects:
            return message
        calls = [
            {**call, "function": {**call["function"], "arguments": _object(call)}}
            for call in message["tool_calls"]
        ]
        return {**message, "tool_calls": calls}


@lru_cache(maxsize=8)
def template_of(tokenizer: Any) -> ChatTemplate:
    """The chat template of a transformers tokenizer; one for each tokenizer.

    Raises:
        ConfigError: it has none.
    """
    return ChatTemplate(tokenizer)


def _exchange(words: str, calls: Sequence[ToolCall]) -> list[Message]:
    response: Message = {"role": "assistant", "content": words}
    if calls:
        response["tool_calls"] = [_placeholder(call, words) for call in calls]
    return [{"role": "user", "content": "."}, response]


def _placeholder(call: ToolCall, words: str) -> ToolCall:
    # Arguments that differ: some templates write calls and leave the content out.
    arguments = json.dumps({"value": words})
    function: FunctionCall = {"name": call["function"]["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def _object(call: ToolCall) -> Any:
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except (ValueError, RecursionError):
        return {"text": call["function"]["arguments"]}
    return value if isinstance(value, dict) else {"value": value}


def _as_user(message: Message) -> Message:
    if message["role"] != "tool":
        return message
    content = f"<tool_response>\n{message['content']}\n</tool_response>"
    return {"role": "user", "content": content}


def _call(arguments: str = "{}") -> ToolCall:
    return {
        "id": "000000000",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }


def _result(text: str = ".") -> Message:
    return {"role": "tool", "content": text, "tool_call_id": "000000000"}
