from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import UserMessage
from autogen_ext.models.ollama import OllamaChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient
from cases import MODEL, TOKEN, URL, attempt, expect, includes
from pydantic import BaseModel


class Place(BaseModel):
    city: str
    people: int


async def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


info = {"vision": True, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}
MODELS = {
    "openai": lambda name=MODEL: OpenAIChatCompletionClient(model=name, base_url=f"{URL}/v1", api_key=TOKEN, max_retries=0, model_info=info),
    "ollama": lambda name=MODEL: OllamaChatCompletionClient(model=name, host=f"{URL}/t/{TOKEN}", model_info=info),
}
hello = [UserMessage(content="hello there", source="user")]


async def last(agent, task):
    return (await agent.run(task=task)).messages[-1].content


for name, model in MODELS.items():

    @attempt(f"{name}: text")
    async def _():
        answer = await model().create(hello)
        expect([answer.content, answer.finish_reason, answer.usage.completion_tokens], ["You said: hello there", "stop", 4])

    @attempt(f"{name}: stream")
    async def _():
        parts = [part async for part in model().create_stream(hello)]
        expect("".join(part for part in parts if isinstance(part, str)), "You said: hello there")
        expect(parts[-1].content, "You said: hello there")

    @attempt(f"{name}: an agent calls a tool")
    async def _():
        agent = AssistantAgent("helper", model_client=model(), tools=[weather], reflect_on_tool_use=True)
        includes(await last(agent, "call weather"), "The tool said: rain in Paris")

    @attempt(f"{name}: an agent, streamed")
    async def _():
        agent = AssistantAgent("helper", model_client=model(), model_client_stream=True)
        expect(await last(agent, "hello there"), "You said: hello there")

    @attempt(f"{name}: an answer of a class")
    async def _():
        agent = AssistantAgent("helper", model_client=model(), output_content_type=Place)
        expect(await last(agent, "7 people"), Place(city="Paris", people=7))

    @attempt(f"{name}: a team takes turns")
    async def _():
        agents = [AssistantAgent(each, model_client=model()) for each in ("one", "two")]
        team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))
        expect([each.source for each in (await team.run(task="hello there")).messages], ["user", "one", "two"])

    @attempt(f"{name}: an unknown model says so")
    async def _():
        try:
            await model("up/none").create(hello)
        except Exception as error:
            return includes(str(error), "does not have the model")
        raise AssertionError("no error")
