from cases import EMBEDDING, MODEL, PNG, THINKING, TOKEN, URL, attempt, expect, includes
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from pydantic import BaseModel

client = Mistral(api_key=TOKEN, server_url=URL)
hello = [{"role": "user", "content": "hello there"}]
call = [{"role": "user", "content": "call weather"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


class Place(BaseModel):
    city: str
    people: int


@attempt("chat")
def _():
    answer = client.chat.complete(model=MODEL, messages=hello)
    expect([answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.completion_tokens], ["You said: hello there", "stop", 4])


@attempt("stream")
def _():
    with client.chat.stream(model=MODEL, messages=hello) as events:
        expect("".join(event.data.choices[0].delta.content or "" for event in events if event.data.choices), "You said: hello there")


@attempt("async")
async def _():
    answer = await client.chat.complete_async(model=MODEL, messages=hello)
    expect(answer.choices[0].message.content, "You said: hello there")


@attempt("a tool call and its result")
def _():
    answer = client.chat.complete(model=MODEL, messages=call, tools=TOOLS, tool_choice="required")
    made = answer.choices[0].message
    expect([made.tool_calls[0].function.name, answer.choices[0].finish_reason], ["weather", "tool_calls"])
    said = {"role": "tool", "name": "weather", "tool_call_id": made.tool_calls[0].id, "content": "rain"}
    answer = client.chat.complete(model=MODEL, messages=[*call, made, said], tools=TOOLS)
    expect(answer.choices[0].message.content, "The tool said: rain")


@attempt("words of Mistral: tool_choice any")
def _():
    answer = client.chat.complete(model=MODEL, messages=call, tools=TOOLS, tool_choice="any")
    expect(answer.choices[0].finish_reason, "tool_calls")


@attempt("words of Mistral: an image as a text")
def _():
    parts = [{"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"}]
    answer = client.chat.complete(model=MODEL, messages=[{"role": "user", "content": parts}])
    includes(answer.choices[0].message.content, "[image]")


@attempt("a tool call in a stream")
def _():
    with client.chat.stream(model=MODEL, messages=call, tools=TOOLS) as events:
        deltas = [event.data.choices[0].delta for event in events if event.data.choices]
    text = "".join(str(part.function.arguments) for delta in deltas for part in delta.tool_calls or [])
    includes(text, "Paris")


@attempt("parse of a class")
def _():
    answer = client.chat.parse(Place, model=MODEL, messages=[{"role": "user", "content": "7 people"}])
    expect(answer.choices[0].message.parsed, Place(city="Paris", people=7))


@attempt("settings of Mistral")
def _():
    answer = client.chat.complete(model=MODEL, messages=hello, max_tokens=2, random_seed=7, safe_prompt=False, stop=["END"], temperature=0.5)
    expect(answer.choices[0].finish_reason, "length")


@attempt("an image")
def _():
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    answer = client.chat.complete(model=MODEL, messages=[{"role": "user", "content": parts}])
    includes(answer.choices[0].message.content, "[image]")


@attempt("a model that reasons")
def _():
    answer = client.chat.complete(model=THINKING, messages=hello)
    expect(answer.choices[0].message.content, "You said: hello there")


@attempt("embeddings")
def _():
    answer = client.embeddings.create(model=EMBEDDING, inputs=["a", "b"])
    expect([len(each.embedding) for each in answer.data], [8, 8])


@attempt("models")
def _():
    assert MODEL in [each.id for each in client.models.list().data]


@attempt("one model")
def _():
    expect(client.models.retrieve(model_id=MODEL).id, MODEL)


@attempt("an unknown model is a 404")
def _():
    try:
        client.chat.complete(model="up/none", messages=hello)
    except SDKError as error:
        return expect([error.status_code, "does not have the model" in error.body], [404, True])
    raise AssertionError("no error")


@attempt("a wrong key is a 401")
def _():
    try:
        Mistral(api_key="wrong", server_url=URL).chat.complete(model=MODEL, messages=hello)
    except SDKError as error:
        return expect(error.status_code, 401)
    raise AssertionError("no error")
