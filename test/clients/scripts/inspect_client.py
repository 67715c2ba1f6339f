import os

os.environ["INSPECT_DISPLAY"] = "none"

from cases import LOOP, MODEL, TOKEN, URL, attempt, expect, includes
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import includes as has_target
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from pydantic import BaseModel


class Place(BaseModel):
    city: str
    people: int


@tool
def weather():
    async def execute(city: str) -> str:
        """The weather of a city.

        Args:
            city: its name
        """
        return f"rain in {city}"

    return execute


of_openai = {"base_url": f"{URL}/v1", "api_key": TOKEN}
MODELS = {
    "openai": lambda name=MODEL: get_model(f"openai/{name}", responses_api=False, **of_openai),
    "responses": lambda name=MODEL: get_model(f"openai/{name}", responses_api=True, **of_openai),
    "openai-api": lambda name=MODEL: get_model(f"openai-api/svc/{name}", **of_openai),
    "anthropic": lambda name=MODEL: get_model(f"anthropic/{name}", base_url=URL, api_key=TOKEN),
    "ollama": lambda name=MODEL: get_model(f"ollama/{name}", **of_openai),
}

for name, model in MODELS.items():

    @attempt(f"{name}: text")
    async def _():
        answer = await model().generate("hello there")
        expect([answer.completion, answer.stop_reason, answer.usage.output_tokens], ["You said: hello there", "stop", 4])

    @attempt(f"{name}: a task whose solver calls a tool")
    async def _():
        task = Task(dataset=[Sample(input="call weather", target="rain in Paris")], solver=[use_tools(weather()), generate()], scorer=has_target())
        [log] = await eval_async(task, model=model(), log_dir="logs")
        expect([log.status, log.results.scores[0].metrics["accuracy"].value], ["success", 1])

    @attempt(f"{name}: an answer of a class")
    async def _():
        schema = ResponseSchema(name="place", json_schema=json_schema(Place))
        answer = await model().generate("7 people", config=GenerateConfig(response_schema=schema))
        expect(Place.model_validate_json(answer.completion), Place(city="Paris", people=7))

    @attempt(f"{name}: an unknown model says so")
    async def _():
        try:
            await model("up/none").generate("x")
        except Exception as error:
            return includes(str(error), "does not have the model")
        raise AssertionError("no error")
