"""Chat completions through the official client, unmodified, over a real server."""

import openai
import pytest

from tests.serve.conftest import Running

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Says the weather.",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "strict": True,
    },
}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def named(tool: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": tool}}


def ask(server: Running, text: str, **more):
    return server.client().chat.completions.create(model="macaron", messages=[user(text)], **more)


def test_an_answer_is_whole_and_delivered(server: Running) -> None:
    found = server.client().chat.completions.with_raw_response.create(
        model="macaron", messages=[user("hello there you")], metadata={"a": "b"}
    )
    answer = found.parse()
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("hello there you", "stop")
    assert answer.object == "chat.completion" and answer.model == "macaron"
    assert answer.system_fingerprint == "a1b2c3d4" and answer.metadata == {"a": "b"}
    assert answer.usage is not None and answer.usage.total_tokens == 16
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4
    assert answer.usage.model_extra == {"macaron": {"route_tokens": 3, "summary_tokens": 0}}
    told = {n: v for n, v in found.headers.items() if n.startswith("x-macaron")}
    assert told == {
        "x-macaron-specialist": "coding",
        "x-macaron-route": "routed",
        "x-macaron-confidence": "0.9876",
        "x-macaron-pair": "a1b2c3d4",
        "x-macaron-hcp": "e5f60718",
        "x-macaron-turn": answer.id,
    }
    assert found.headers["x-request-id"].startswith("req_")
    server.until(lambda: server.service.ends() == ["delivered"])


def test_a_stream_comes_in_pieces_and_ends_with_the_usage(server: Running) -> None:
    stream = ask(server, "say:one| two|", stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert {chunk.id for chunk in chunks} == {"chatcmpl_0001"}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].delta.content for c in chunks[1:3]] == ["one", " two"]
    assert [c.choices[0].finish_reason for c in chunks[:-1]][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    assert all(chunk.usage is None for chunk in chunks[:-1])
    server.until(lambda: server.service.ends() == ["delivered"])


def test_the_clients_helper_puts_a_stream_together(server: Running) -> None:
    with server.client().chat.completions.stream(
        model="macaron", messages=[user("say:hel|lo;call:weather")], tools=[TOOL]
    ) as stream:
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "hello" and message.tool_calls is not None
    assert message.tool_calls[0].function.name == "weather"
    assert message.tool_calls[0].function.arguments == '{"x": 1}'
    assert final.choices[0].finish_reason == "tool_calls"


def test_tools_are_called_and_their_results_come_back(server: Running) -> None:
    first = ask(server, "call:weather;call:weather", tools=[TOOL], tool_choice="required")
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls" and message.content is None
    assert message.tool_calls is not None and len(message.tool_calls) == 2
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls
    ]
    again = server.client().chat.completions.create(
        model="macaron",
        messages=[user("go"), message.model_dump(), *results],
        tools=[TOOL],
        tool_choice=named("weather"),
    )
    assert again.choices[0].message.content == "sunny"
    asked = server.service.requests[-1]
    assert [m["role"] for m in asked.messages] == ["user", "assistant", "tool", "tool"]
    assert asked.messages[1]["tool_calls"][0]["function"]["name"] == "weather"
    assert asked.tool_choice == "weather" and asked.tools[0].name == "weather"


@pytest.mark.parametrize("stream", [False, True])
def test_n_answers_have_an_index_each(server: Running, stream: bool) -> None:
    found = ask(server, "say:a|b", n=3, stream=stream)
    if not stream:
        assert [(c.index, c.message.content) for c in found.choices] == [
            (i, "ab") for i in range(3)
        ]
        assert found.usage.completion_tokens == 15 and found.usage.prompt_tokens == 11
        return
    texts = {0: "", 1: "", 2: ""}
    for chunk in found:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: "ab", 1: "ab", 2: "ab"}


def test_every_wish_reaches_the_service(server: Running) -> None:
    server.client().chat.completions.create(
        model="macaron",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "you"}],
            },
        ],
        temperature=0.5,
        top_p=0.9,
        max_completion_tokens=77,
        max_tokens=77,
        seed=-5,
        stop=["END", "\n\n"],
        user="anna",
        store=True,
        metadata={"k": "v"},
        parallel_tool_calls=True,
        response_format={"type": "text"},
        frequency_penalty=0,
        presence_penalty=0.0,
        logprobs=False,
    )
    asked = server.service.requests[0]
    wishes = asked.wishes
    assert (wishes.temperature, wishes.top_p, wishes.max_tokens) == (0.5, 0.9, 77)
    assert (wishes.seed, wishes.stop) == (-5, ("END", "\n\n"))
    assert asked.instructions == "Be brief.\n\nBe kind."
    assert asked.messages == [{"role": "user", "content": "hi you"}]
    assert (asked.user, asked.store, asked.metadata) == ("anna", True, {"k": "v"})
    assert (asked.kind, asked.key, asked.previous) == ("chat", "local", None)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("answer", "stop"), ("length", "length"), ("rounds", "length"), ("malformed", "stop"),
     ("refused", "content_filter")],
)  # fmt: skip
def test_why_it_ended_is_said_in_openais_words(server: Running, stop: str, reason: str) -> None:
    assert ask(server, f"say:x;stop:{stop}").choices[0].finish_reason == reason


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"temperature": 3}, "temperature"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"n": 9}, "n"),
        ({"n": 0}, "n"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        (
            {"tools": [TOOL], "tool_choice": named("x")},
            "tool_choice",
        ),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"extra_body": {"fields": 1}}, "fields"),
        ({"extra_body": {"web_search_options": {}}}, "web_search_options"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(server: Running, more, said: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(server, "hi", **more)
    error = caught.value
    assert error.param == said and error.type == "invalid_request_error"
    assert "\n" not in error.body["message"]  # type: ignore[index]
    assert server.service.requests == []


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SPECS = [
    {"type": "object", "properties": {"a": {"$ref": "http://10.0.0.1/x"}}},
    {"type": "array"},
    {"type": 5},
]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "messages"),
        ([{"role": "user", "content": [IMAGE]}], "messages.0.content.0.type"),
        ([{"role": "user", "content": "x", "name": "bob"}], "messages.0.name"),
        ([{"role": "owner", "content": "x"}], "messages.0"),
        ([{"role": "assistant", "content": "x"}], "messages"),
        ([user("x"), {"role": "tool", "tool_call_id": "c", "content": ""}], "messages"),
        ([user("x"), {"role": "assistant", "tool_calls": [CALL]}, user("y")], "messages"),
        ([{"role": "user", "content": "x\ud800"}], None),
    ],
)
def test_faulty_messages_are_refused(server: Running, messages, said: str | None) -> None:
    import json

    import httpx

    body = json.dumps({"model": "macaron", "messages": messages})
    found = httpx.post(
        f"{server.url}/v1/chat/completions",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert found.status_code == 400, found.text
    assert found.json()["error"]["param"] == said


@pytest.mark.parametrize("schema", SPECS)
def test_a_schema_that_cannot_be_used_is_refused(server: Running, schema) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(server, "x", tools=[tool])
    assert caught.value.param == "tools.0.function.parameters"


def test_a_model_that_there_is_not(server: Running) -> None:
    with pytest.raises(openai.NotFoundError, match="macaron") as caught:
        server.client().chat.completions.create(model="gpt-4", messages=[user("x")])
    assert caught.value.code == "model_not_found"
    assert [model.id for model in server.client().models.list()] == ["macaron"]
    assert server.client().models.retrieve("macaron").owned_by == "macaron"
    with pytest.raises(openai.NotFoundError):
        server.client().models.retrieve("adapter-l2")
