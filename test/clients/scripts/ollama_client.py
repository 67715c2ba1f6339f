import json

from cases import EMBEDDING, MODEL, THINKING, TOKEN, URL, attempt, expect, includes, says
from ollama import AsyncClient, Client, ResponseError

headers = {"Authorization": f"Bearer {TOKEN}"}
client = Client(host=URL, headers=headers)
messages = [{"role": "user", "content": "hello there"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@attempt("chat")
def _():
    answer = client.chat(MODEL, messages)
    says([answer.message.content, answer.done_reason], ["You said: hello there", "stop"])


@attempt("chat, streamed")
def _():
    says("".join(part.message.content for part in client.chat(MODEL, messages, stream=True)), "You said: hello there")


@attempt("an asynchronous chat")
async def _():
    says((await AsyncClient(host=URL, headers=headers).chat(MODEL, messages)).message.content, "You said: hello there")


@attempt("generate")
def _():
    says(client.generate(MODEL, "hello there").response, "You said: hello there")


@attempt("a function as a tool")
def _():
    answer = client.chat(MODEL, messages, tools=[weather])
    call = answer.message.tool_calls[0]
    says(call.function.arguments, {"city": "Paris"})
    result = {"role": "tool", "tool_name": "weather", "content": weather(**call.function.arguments)}
    says(client.chat(MODEL, [*messages, answer.message, result], tools=[weather]).message.content, "The tool said: rain in Paris")


@attempt("thinking")
def _():
    includes(client.chat(THINKING, messages, think=True).message.thinking, "think")


@attempt("a format")
def _():
    says(json.loads(client.chat(MODEL, messages, format=SCHEMA).message.content), {"city": "Paris"})


@attempt("embed")
def _():
    expect(len(client.embed(EMBEDDING, ["a", "b"]).embeddings), 2)


@attempt("list, show, ps")
def _():
    assert any(model.model.startswith(MODEL) for model in client.list().models)
    assert "completion" in client.show(MODEL).capabilities
    client.ps()


@attempt("an unknown model is a 404")
def _():
    try:
        client.chat("up/none", messages)
    except ResponseError as error:
        return expect(error.status_code, 404)
    raise AssertionError("no error")
