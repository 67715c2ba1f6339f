from cases import MODEL, TOKEN, URL, attempt, expect, includes
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

model = OpenAIServerModel(model_id=MODEL, api_base=f"{URL}/v1", api_key=TOKEN)
messages = [{"role": "user", "content": [{"type": "text", "text": "hello there"}]}]


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return f"rain in {city}"


@attempt("text")
def _():
    includes(model.generate(messages).content, "hello there")


@attempt("stream")
def _():
    includes("".join(part.content or "" for part in model.generate_stream(messages)), "hello there")


@attempt("an agent calls a tool")
def _():
    steps = []
    agent = ToolCallingAgent(tools=[weather], model=model, max_steps=1, step_callbacks=[lambda step, **_: steps.append(str(getattr(step, "observations", "")))])
    agent.run("call weather")
    includes(" ".join(steps), "rain in Paris")
