from agents import Agent, HostedMCPTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from cases import MODEL, TOKEN, URL, attempt, expect, includes
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)


class Place(BaseModel):
    city: str


@function_tool
def weather(city: str) -> str:
    return f"rain in {city}"


for name, kind in {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}.items():

    def agent(**more):
        client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=TOKEN)
        return Agent(name="a", instructions="Be short.", model=kind(MODEL, client), **more)

    @attempt(f"{name}: text")
    async def _():
        expect((await Runner.run(agent(), "hello there")).final_output, "You said: hello there")

    @attempt(f"{name}: stream")
    async def _():
        result = Runner.run_streamed(agent(), "hello there")
        async for _ in result.stream_events():
            pass
        expect(result.final_output, "You said: hello there")

    @attempt(f"{name}: tool")
    async def _():
        includes((await Runner.run(agent(tools=[weather]), "call weather")).final_output, "rain in Paris")

    @attempt(f"{name}: output of a type")
    async def _():
        expect((await Runner.run(agent(output_type=Place), "x")).final_output.city, "Paris")

    @attempt(f"{name}: session")
    async def _():
        session = SQLiteSession("s")
        await Runner.run(agent(), "first", session=session)
        expect((await Runner.run(agent(), "second", session=session)).final_output, "You said: second")


def desk():
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=TOKEN)
    tool = HostedMCPTool(tool_config={"type": "mcp", "server_label": "desk", "require_approval": "always"})
    return Agent(name="a", model=OpenAIResponsesModel(MODEL, client), tools=[tool])


@attempt("responses: a tool of a server, approved")
async def _():
    result = await Runner.run(desk(), "desk__echo 'blue'")
    (wish,) = result.interruptions
    state = result.to_state()
    state.approve(wish)
    expect((await Runner.run(desk(), state)).final_output, "The tool said: blue")


@attempt("responses: a tool of a server, rejected, with previous_response_id")
async def _():
    result = await Runner.run(desk(), "desk__echo 'blue'", auto_previous_response_id=True)
    state = result.to_state()
    for wish in result.interruptions:
        state.reject(wish)
    includes((await Runner.run(desk(), state)).final_output, "denied")
