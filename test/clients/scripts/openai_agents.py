from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
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
