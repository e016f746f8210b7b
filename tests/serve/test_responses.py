"""Responses through the official client, unmodified, over a real server."""

import openai
import pytest

from tests.serve.conftest import Running

TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Says the weather.",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "strict": True,
}


def ask(server: Running, text: str, **more):
    return server.client().responses.create(model="macaron", input=text, **more)


def test_a_response_is_whole_and_goes_on(server: Running) -> None:
    first = ask(server, "hello you", instructions="Be brief.", metadata={"k": "v"}, user="anna")
    assert (first.output_text, first.status, first.object) == ("hello you", "completed", "response")
    assert first.id.startswith("resp_") and first.output[0].id.startswith("msg_")
    assert first.instructions == "Be brief." and first.metadata == {"k": "v"}
    assert first.usage is not None and first.usage.input_tokens_details.cached_tokens == 4
    assert first.usage.model_extra == {"macaron": {"route_tokens": 3, "summary_tokens": 0}}
    server.until(lambda: server.service.ends() == ["delivered"])
    second = ask(server, "and then", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    asked = server.service.requests[-1]
    assert asked.previous == first.id and asked.store
    assert asked.messages == [{"role": "user", "content": "and then"}]
    assert server.service.requests[0].instructions == "Be brief."


def test_a_response_can_be_looked_up_and_forgotten(server: Running) -> None:
    made = ask(server, "say:hello;call:weather", tools=[TOOL])
    server.until(lambda: server.service.ends() == ["delivered"])
    client = server.client()
    found = client.responses.retrieve(made.id)
    assert found.output == made.output and found.tools == made.tools
    assert found.status == made.status and found.usage == made.usage
    client.responses.delete(made.id)
    for gone in (made.id, "resp_nothing", "resp%00", "x" * 500):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(gone)
        with pytest.raises(openai.NotFoundError):
            client.responses.delete(gone)
    with pytest.raises(openai.NotFoundError):
        ask(server, "go on", previous_response_id=made.id)


def test_what_is_not_stored_cannot_be_looked_up(server: Running) -> None:
    made = ask(server, "hello", store=False)
    server.until(lambda: server.service.ends() == ["delivered"])
    with pytest.raises(openai.NotFoundError):
        server.client().responses.retrieve(made.id)


def test_tools_are_called_and_their_results_come_back(server: Running) -> None:
    first = ask(
        server, "call:weather", tools=[TOOL], tool_choice={"type": "function", "name": "weather"}
    )
    (call,) = first.output
    assert call.type == "function_call" and call.name == "weather" and call.arguments == '{"x": 1}'
    server.until(lambda: server.service.ends() == ["delivered"])
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = ask(server, [output], previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "sunny"
    asked = server.service.requests[-1].messages
    assert asked == [{"role": "tool", "content": "sunny", "tool_call_id": call.call_id}]
    # The same for a client that keeps the conversation itself.
    for item in (call, call.model_dump()):
        kept = [{"role": "user", "content": "go"}, item, output]
        assert ask(server, kept, tools=[TOOL]).output_text == "sunny"
    roles = [message["role"] for message in server.service.requests[-1].messages]
    assert roles == ["user", "assistant", "tool"]


def test_items_of_every_kind_are_understood(server: Running) -> None:
    said = ask(server, "say:before").output[0].model_dump()
    ask(
        server,
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            said,
            {"role": "assistant", "content": "more"},
            {"role": "user", "content": "b"},
        ],
        instructions="Be.",
    )
    asked = server.service.requests[-1]
    assert asked.instructions == "Be.\n\nBe brief.\n\nBe kind."
    assert [(m["role"], m["content"]) for m in asked.messages] == [
        ("user", "a"), ("assistant", "before"), ("assistant", "more"), ("user", "b"),
    ]  # fmt: skip


TEXT = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]
CALL = [
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("say:a|b", [*TEXT, "response.completed"]),
        ("say:a|b;stop:length", [*TEXT, "response.incomplete"]),
        ("call:f;call:f", [*TEXT[:2], *CALL, *CALL, "response.completed"]),
        ("say:a|b;call:f", [*TEXT, *CALL, "response.completed"]),
        ("stop:answer", [*TEXT[:4], *TEXT[6:], "response.completed"]),
    ],
)
def test_a_stream_has_openais_events_in_their_order(
    server: Running, text: str, kinds: list[str]
) -> None:
    events = list(ask(server, text, stream=True))
    assert [event.type for event in events] == kinds
    assert [event.sequence_number for event in events] == list(range(len(events)))
    final, whole = events[-1].response, ask(server, text)
    assert events[0].response.id == final.id and events[0].response.status == "in_progress"
    assert final.output_text == whole.output_text and final.status == whole.status
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == final.output
    server.until(lambda: server.service.ends() == ["delivered"] * 2)


def test_the_clients_helper_puts_a_stream_together(server: Running) -> None:
    """Also one with steps, which are events that it does not know."""
    with server.client().responses.stream(
        model="macaron", input="step;say:hel|lo;call:weather", tools=[TOOL]
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == "hello" and final.output[1].name == "weather"
    assert kinds.count("macaron.step") == 2


def test_a_step_says_what_was_called_and_what_came(server: Running) -> None:
    events = list(ask(server, "step;say:done", stream=True))
    steps = [event.model_dump() for event in events if event.type == "macaron.step"]
    assert [(s["call_id"], s["name"], s["arguments"], s["result"]) for s in steps] == [
        ("call_0", "search", '{"x": 1}', None), ("call_0", "search", '{"x": 1}', "found"),
    ]  # fmt: skip
    assert ask(server, "step;say:done").output_text == "done"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"background": True}, "background"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}},
            "text.format.type",
        ),
        ({"reasoning": {"effort": "low"}}, "reasoning"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"max_output_tokens": 10**9}, "max_output_tokens"),
        ({"input": []}, "input"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input.0.content.0.type",
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ({"input": [{"role": "user", "content": 5}]}, "input.0.content"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"user": "a", "safety_identifier": "b"}, "safety_identifier"),
        ({"extra_body": {"fields": 1}}, "fields"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(server: Running, more, said: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().responses.create(**{"model": "macaron", "input": "hi", **more})
    assert caught.value.param == said
    assert server.service.requests == []
