import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from cases import EMBEDDING, MODEL, TOKEN, URL, attempt, expect, includes

messages = [{"role": "user", "content": "hello there"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
WAYS = {
    "openai/": {"api_base": f"{URL}/v1"},
    "anthropic/": {"api_base": URL},
    "ollama_chat/": {"api_base": URL},
    "ollama/": {"api_base": URL},
}

for prefix, where in WAYS.items():
    asked = {"model": prefix + MODEL, "messages": messages, "api_key": TOKEN, "num_retries": 0, **where}

    @attempt(f"{prefix} text")
    def _():
        includes(litellm.completion(**asked).choices[0].message.content, "hello there")

    @attempt(f"{prefix} stream")
    def _():
        chunks = list(litellm.completion(**asked, stream=True))
        includes("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "hello there")

    if prefix != "ollama/":

        @attempt(f"{prefix} tools")
        def _():
            call = litellm.completion(**asked, tools=TOOLS).choices[0].message.tool_calls[0]
            includes(call.function.arguments, "Paris")


@attempt("text-completion-openai/")
def _():
    answer = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt="hello there", api_key=TOKEN, api_base=f"{URL}/v1")
    includes(answer.choices[0].text, "hello")


@attempt("responses")
def _():
    answer = litellm.responses(model=f"openai/{MODEL}", input="hello there", api_key=TOKEN, api_base=f"{URL}/v1")
    includes(str(answer.output), "hello there")


@attempt("openai/ embedding")
def _():
    expect(len(litellm.embedding(model=f"openai/{EMBEDDING}", input=["a", "b"], api_key=TOKEN, api_base=f"{URL}/v1").data), 2)


@attempt("ollama/ embedding")
def _():
    expect(len(litellm.embedding(model=f"ollama/{EMBEDDING}", input=["a", "b"], api_key=TOKEN, api_base=URL).data), 2)
