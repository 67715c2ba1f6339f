from cases import MODEL, TOKEN, URL, attempt, expect, includes
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Place(BaseModel):
    city: str
    people: int


of_openai = OpenAIProvider(base_url=f"{URL}/v1", api_key=TOKEN)
MODELS = {
    "chat": OpenAIChatModel(MODEL, provider=of_openai),
    "responses": OpenAIResponsesModel(MODEL, provider=of_openai),
    "messages": AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key=TOKEN)),
}

for name, model in MODELS.items():

    @attempt(f"{name}: text")
    async def _():
        expect((await Agent(model).run("hello there")).output, "You said: hello there")

    @attempt(f"{name}: stream")
    async def _():
        async with Agent(model).run_stream("hello there") as result:
            expect(await result.get_output(), "You said: hello there")

    @attempt(f"{name}: tool")
    async def _():
        agent = Agent(model)

        @agent.tool_plain
        def weather(city: str) -> str:
            return f"rain in {city}"

        includes((await agent.run("call weather")).output, "rain in Paris")

    @attempt(f"{name}: output of a type")
    async def _():
        expect((await Agent(model, output_type=Place).run("x")).output.city, "Paris")
