from cases import EMBEDDING, MODEL, REAL, THINKING, TOKEN, URL, attempt, expect, includes, required, says
from openai import AsyncOpenAI, AuthenticationError, BadRequestError, NotFoundError, OpenAI, pydantic_function_tool
from pydantic import BaseModel

client = OpenAI(base_url=f"{URL}/v1", api_key=TOKEN, max_retries=0)
hi = {"model": MODEL, "messages": [{"role": "user", "content": "hello there"}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Place(BaseModel):
    city: str
    people: int


@attempt("chat")
def _():
    answer = client.chat.completions.create(**hi)
    says(answer.choices[0].message.content, "You said: hello there")
    says(answer.usage.completion_tokens, 4)
    assert answer._request_id


@attempt("chat, streamed with usage")
def _():
    chunks = list(client.chat.completions.create(**hi, stream=True, stream_options={"include_usage": True}))
    says("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "You said: hello there")
    says(chunks[-1].usage.completion_tokens, 4)


@attempt("an asynchronous stream")
async def _():
    async with AsyncOpenAI(base_url=f"{URL}/v1", api_key=TOKEN) as other:
        text = ""
        async for chunk in await other.chat.completions.create(**hi, stream=True):
            text += chunk.choices[0].delta.content or ""
    says(text, "You said: hello there")


@attempt("the helper of streams, with a tool")
def _():
    with client.chat.completions.stream(**hi, tools=[pydantic_function_tool(Place)], **required("required")) as stream:
        for event in stream:
            pass
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    says(call.function.parsed_arguments.city, "Paris")


@attempt("parse of a schema")
def _():
    answer = client.chat.completions.parse(**hi, response_format=Place)
    says(answer.choices[0].message.parsed, Place(city="Paris", people=2))


@attempt("reasoning beside the answer")
def _():
    includes(client.chat.completions.create(**{**hi, "model": THINKING}).choices[0].message.reasoning_content, "think")


@attempt("fields in extra_body")
def _():
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "min_tokens": 1, "top_k": 20}
    says(client.chat.completions.create(**hi, extra_body=extra).choices[0].finish_reason, "stop")


@attempt("a response")
def _():
    says(client.responses.create(model=MODEL, input="hello there").output_text, "You said: hello there")


@attempt("a response, streamed")
def _():
    with client.responses.stream(model=MODEL, input="hello there") as stream:
        for event in stream:
            pass
        says(stream.get_final_response().output_text, "You said: hello there")


@attempt("a response of a schema")
def _():
    says(client.responses.parse(model=MODEL, input="x", text_format=Place).output_parsed.city, "Paris")


@attempt("a tool of a response")
def _():
    tools = [{"type": "function", "name": "weather", "strict": False, "parameters": SCHEMA}]
    first = client.responses.create(model=MODEL, input="call weather", tools=tools, **required("required"))
    items = [{"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain"}]
    second = client.responses.create(model=MODEL, input=items, previous_response_id=first.id, tools=tools)
    says(second.output_text, "The tool said: rain")


@attempt("tokens of an input")
def _():
    assert client.responses.input_tokens.count(model=MODEL, input="hello there").input_tokens > 0


@attempt("a compacted conversation")
def _():
    compact = client.responses.compact(model=MODEL, input=[{"role": "user", "content": "hello there"}])
    answer = client.responses.create(model=MODEL, input=[*[o.to_dict() for o in compact.output], {"role": "user", "content": "go on"}])
    includes(answer.output_text, "go on")


@attempt("a response over WebSocket")
def _():
    with client.responses.connect() as connection:
        connection.response.create(model=MODEL, input="hello there")
        for event in connection:
            if event.type == "response.completed":
                says(event.response.output_text, "You said: hello there")
                break


@attempt("a conversation with items")
def _():
    talk = client.conversations.create(items=[{"type": "message", "role": "user", "content": "first"}])
    client.responses.create(model=MODEL, input="second", conversation=talk.id)
    expect([item.role for item in client.conversations.items.list(talk.id, order="asc")], ["user", "user", "assistant"])


@attempt("embeddings")
def _():
    expect(len(client.embeddings.create(model=EMBEDDING, input=["a", "b"]).data), 2)


@attempt("models")
def _():
    assert MODEL in [model.id for model in client.models.list()]


@attempt("errors have their class")
def _():
    for error, change in [
        (AuthenticationError, {"key": "wrong"}),
        (NotFoundError, {"model": "up/none"}),
        (BadRequestError, {"temperature": 9}),
    ]:
        other = client.with_options(api_key=change.pop("key", TOKEN))
        try:
            other.chat.completions.create(**{**hi, **change})
        except error:
            continue
        raise AssertionError(error.__name__)


if not REAL:

    @attempt("a tool of a server, approved")
    def _():
        tools = [{"type": "mcp", "server_label": "desk"}]
        first = client.responses.create(model=MODEL, input="desk__echo 'blue'", tools=tools)
        wish = first.output[-1]
        expect((wish.type, wish.name, wish.server_label), ("mcp_approval_request", "echo", "desk"))
        answer = {"type": "mcp_approval_response", "approval_request_id": wish.id, "approve": True}
        with client.responses.stream(
            model=MODEL, input=[answer], tools=tools, previous_response_id=first.id
        ) as stream:
            kinds = [event.type for event in stream]
            second = stream.get_final_response()
        assert "response.mcp_call.completed" in kinds
        expect(second.output[0].output, "blue")
        expect(second.output_text, "The tool said: blue")
