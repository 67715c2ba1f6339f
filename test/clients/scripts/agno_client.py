from agno.agent import Agent
from agno.models.ollama import Ollama
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.models.openai.like import OpenAILike
from cases import MODEL, TOKEN, URL, attempt, expect, includes
from ollama import Client
from pydantic import BaseModel


class Place(BaseModel):
    city: str
    people: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


of_openai = {"base_url": f"{URL}/v1", "api_key": TOKEN, "max_retries": 0}
of_ollama = Client(host=URL, headers={"Authorization": f"Bearer {TOKEN}"})
MODELS = {
    "like": lambda: OpenAILike(id=MODEL, **of_openai),
    "chat": lambda: OpenAIChat(id=MODEL, **of_openai),
    "responses": lambda: OpenAIResponses(id=MODEL, **of_openai),
    "ollama": lambda: Ollama(id=MODEL, client=of_ollama),
}

for name, model in MODELS.items():

    @attempt(f"{name}: text")
    def _():
        expect(Agent(model=model(), telemetry=False).run("hello there").content, "You said: hello there")

    @attempt(f"{name}: a tool, streamed")
    def _():
        parts = Agent(model=model(), tools=[weather], telemetry=False).run("call weather", stream=True)
        includes("".join(str(getattr(part, "content", "") or "") for part in parts), "rain in Paris")

    @attempt(f"{name}: an answer of a class")
    def _():
        agent = Agent(model=model(), output_schema=Place, structured_outputs=True, telemetry=False)
        expect(agent.run("7 people").content, Place(city="Paris", people=7))
