from cases import MODEL, TOKEN, URL, attempt, expect, includes
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel


class Place(BaseModel):
    """A place."""

    city: str
    people: int


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


of_openai = {"model": MODEL, "base_url": f"{URL}/v1", "api_key": TOKEN, "max_retries": 0}
headers = {"headers": {"Authorization": f"Bearer {TOKEN}"}}
MODELS = {
    "chat": ChatOpenAI(**of_openai),
    "responses": ChatOpenAI(**of_openai, use_responses_api=True),
    "responses with an earlier one": ChatOpenAI(**of_openai, use_responses_api=True, use_previous_response_id=True),
    "ollama": ChatOllama(model=MODEL, base_url=URL, client_kwargs=headers),
}


def asked(text):
    return {"messages": [{"role": "user", "content": text}]}


for name, model in MODELS.items():

    @attempt(f"{name}: an agent calls a tool")
    def _():
        answer = create_agent(model, [weather]).invoke(asked("call weather"))
        includes(answer["messages"][-1].text, "The tool said: rain in Paris")

    @attempt(f"{name}: an agent, streamed")
    def _():
        parts = create_agent(model, [weather]).stream(asked("call weather"), stream_mode="messages")
        includes("".join(part.text for part, _ in parts if part.type == "AIMessageChunk"), "The tool said: rain in Paris")

    @attempt(f"{name}: an agent remembers its thread")
    def _():
        agent = create_agent(model, [], checkpointer=InMemorySaver())
        thread = {"configurable": {"thread_id": "1"}}
        agent.invoke(asked("first"), thread)
        said = agent.invoke(asked("second"), thread)["messages"]
        expect([each.text for each in said], ["first", "You said: first", "second", "You said: second"])

    for strategy in [ProviderStrategy, ToolStrategy]:

        @attempt(f"{name}: an answer of a class, {strategy.__name__}")
        def _():
            answer = create_agent(model, [], response_format=strategy(Place)).invoke(asked("7 people"))
            expect(answer["structured_response"], Place(city="Paris", people=7))
