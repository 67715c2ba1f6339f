from cases import MODEL, TOKEN, URL, attempt, expect, includes
from pydantic import BaseModel
from strands import Agent, tool
from strands.models.ollama import OllamaModel
from strands.models.openai import OpenAIModel


class Place(BaseModel):
    """A place."""

    city: str
    people: int


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"rain in {city}"


of_openai = {"client_args": {"base_url": f"{URL}/v1", "api_key": TOKEN, "max_retries": 0}}
MODELS = {
    "openai": lambda name: OpenAIModel(model_id=name, **of_openai),
    "ollama": lambda name: OllamaModel(f"{URL}/t/{TOKEN}", model_id=name),
}

for name, model in MODELS.items():

    def agent(of=MODEL, **options):
        return Agent(model=model(of), callback_handler=None, **options)

    @attempt(f"{name}: text")
    def _():
        includes(str(agent()("hello there")), "You said: hello there")

    @attempt(f"{name}: stream")
    async def _():
        text = ""
        async for event in agent().stream_async("hello there"):
            text += event.get("data", "")
        expect(text, "You said: hello there")

    @attempt(f"{name}: a tool is called")
    def _():
        includes(str(agent(tools=[weather])("call weather")), "rain in Paris")

    @attempt(f"{name}: an answer of a class")
    def _():
        expect(agent()("7 people", structured_output_model=Place).structured_output.people, 7)

    @attempt(f"{name}: an unknown model says so")
    def _():
        try:
            agent("up/none")("x")
        except Exception as error:
            return includes(str(error), "does not have the model")
        raise AssertionError("no error")
