from anthropic import Anthropic, AsyncAnthropic, AuthenticationError, BadRequestError, NotFoundError, beta_tool
from cases import MODEL, PNG, REAL, THINKING, TOKEN, URL, attempt, expect, includes, says

client = Anthropic(base_url=URL, api_key=TOKEN, max_retries=0)
hi = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "hello there"}]}


@beta_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"rain in {city}"


@attempt("a message")
def _():
    message = client.messages.create(**hi)
    says([part.text for part in message.content], ["You said: hello there"])
    says([message.stop_reason, message.usage.output_tokens], ["end_turn", 4])
    assert message._request_id


@attempt("a message, streamed")
def _():
    with client.messages.stream(**hi) as stream:
        starts = [event.message.usage.input_tokens for event in stream if event.type == "message_start"]
        says(stream.get_final_text(), "You said: hello there")
    assert starts[0] > 0, starts


@attempt("an asynchronous stream")
async def _():
    async with AsyncAnthropic(base_url=URL, api_key=TOKEN) as other, other.messages.stream(**hi) as stream:
        says(await stream.get_final_text(), "You said: hello there")


@attempt("thinking")
def _():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    message = client.messages.create(**{**hi, "model": THINKING, "max_tokens": 2000}, thinking=thinking)
    expect([part.type for part in message.content], ["thinking", "text"])


@attempt("the tool runner")
def _():
    runner = client.beta.messages.tool_runner(**hi, tools=[weather])
    says(runner.until_done().content[0].text, "The tool said: rain in Paris")


@attempt("the tool runner, streamed")
def _():
    for stream in client.beta.messages.tool_runner(**hi, tools=[weather], stream=True):
        message = stream.get_final_message()
    says(message.content[0].text, "The tool said: rain in Paris")


@attempt("an image")
def _():
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    content = [{"type": "text", "text": "what?"}, {"type": "image", "source": source}]
    message = client.messages.create(**{**hi, "messages": [{"role": "user", "content": content}]})
    includes(message.content[0].text, "[image]")


@attempt("a document of text")
def _():
    source = {"type": "text", "media_type": "text/plain", "data": "the cat sat"}
    content = [{"type": "document", "source": source}, {"type": "text", "text": "sum up"}]
    message = client.messages.create(**{**hi, "messages": [{"role": "user", "content": content}]})
    includes(message.content[0].text, "the cat sat")


@attempt("tokens of a local model are counted")
def _():
    assert client.messages.count_tokens(model="local/svc-mini", messages=hi["messages"]).input_tokens > 0


@attempt("models")
def _():
    assert MODEL in [model.id for model in client.models.list()]


@attempt("errors have their class")
def _():
    for error, change in [
        (AuthenticationError, {"key": "wrong"}),
        (NotFoundError, {"model": "up/none"}),
        (BadRequestError, {"extra_body": {"temperature": 9}}),
    ]:
        other = client.with_options(api_key=change.pop("key", TOKEN))
        try:
            other.messages.create(**{**hi, **change})
        except error:
            continue
        raise AssertionError(error.__name__)


if not REAL:

    @attempt("a tool of a server")
    def _():
        message = client.beta.messages.create(
            **{**hi, "messages": [{"role": "user", "content": "shelf__echo 'blue'"}]},
            mcp_servers=[{"type": "url", "name": "shelf", "url": ""}],
            betas=["mcp-client-2025-11-20"],
        )
        expect([block.type for block in message.content], ["mcp_tool_use", "mcp_tool_result", "text"])
        expect(message.content[1].content[0].text, "blue")
