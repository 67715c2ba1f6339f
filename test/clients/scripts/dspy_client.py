import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy
from cases import EMBEDDING, MODEL, TOKEN, URL, attempt, expect, includes

svc = {"api_base": f"{URL}/v1", "api_key": TOKEN, "cache": False, "num_retries": 0}
MODELS = {
    "chat": dspy.LM(f"openai/{MODEL}", **svc),
    "responses": dspy.LM(f"openai/{MODEL}", model_type="responses", **svc),
    "text": dspy.LM(f"openai/{MODEL}", model_type="text", **svc),
    "messages": dspy.LM(f"anthropic/{MODEL}", **svc),
}


class Question(dspy.Signature):
    question: str = dspy.InputField()
    city: str = dspy.OutputField()
    people: int = dspy.OutputField()


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


for name, model in MODELS.items():

    @attempt(f"{name}: text")
    def _():
        answer = model("hello there")[0]
        includes(answer if isinstance(answer, str) else answer["text"], "hello there")


@attempt("a signature, as JSON by a schema")
def _():
    # The library asks with a schema only where it knows the name of the model.
    with dspy.context(lm=dspy.LM("openai/gpt-4o", **svc), adapter=dspy.JSONAdapter()):
        answer = dspy.Predict(Question)(question="how many?")
        expect(answer.city, "Paris")


@attempt("three answers")
def _():
    expect(len(MODELS["chat"]("hello there", n=3)), 3)


@attempt("a native tool call")
def _():
    tool = dspy.Tool(weather).format_as_litellm_function_call()
    answer = MODELS["chat"]("call weather", tools=[tool])[0]
    includes(str(answer["tool_calls"][0].function.arguments), "Paris")


@attempt("embeddings")
def _():
    expect(dspy.Embedder(f"openai/{EMBEDDING}", api_base=svc["api_base"], api_key=TOKEN, caching=False)(["a", "b"]).shape, (2, 8))


@attempt("an unknown model says so")
def _():
    try:
        dspy.LM("openai/up/none", **svc)("x")
    except Exception as error:
        return includes(str(error), "does not have the model")
    raise AssertionError("no error")
