import asyncio

from cases import EMBEDDING, MODEL, TOKEN, URL, attempt, expect, includes
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from openai import NotFoundError
from pydantic import BaseModel


class Place(BaseModel):
    city: str
    people: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


of_openai = {"api_base": f"{URL}/v1", "api_key": TOKEN, "max_retries": 0}
like = {**of_openai, "is_chat_model": True, "is_function_calling_model": True, "context_window": 8000}
MODELS = {
    "like": OpenAILike(model=MODEL, **like),
    "chat": OpenAI(model="gpt-4o", **of_openai),
    "responses": OpenAIResponses(model="gpt-4o", **of_openai),
    "ollama": Ollama(model=MODEL, base_url=f"{URL}/t/{TOKEN}", context_window=8000),
}
hi = [ChatMessage(role="user", content="hello there")]

for name, model in MODELS.items():

    @attempt(f"{name}: chat")
    def _():
        expect(model.chat(hi).message.content, "You said: hello there")

    @attempt(f"{name}: stream")
    def _():
        expect("".join(part.delta or "" for part in model.stream_chat(hi)), "You said: hello there")

    @attempt(f"{name}: a tool call")
    def _():
        answer = model.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg="call weather")
        [call] = model.get_tool_calls_from_response(answer)
        expect((call.tool_name, call.tool_kwargs), ("weather", {"city": "Paris"}))

    @attempt(f"{name}: an agent calls a tool")
    async def _():
        agent = FunctionAgent(tools=[weather], llm=model)
        includes(str(await agent.run("call weather")), "The tool said: rain in Paris")

    @attempt(f"{name}: an answer of a class")
    def _():
        expect(model.as_structured_llm(Place).chat(hi).raw, Place(city="Paris", people=2))


@attempt("several at once")
async def _():
    asked = [MODELS["like"].achat([ChatMessage(role="user", content=f"number {i}")]) for i in range(4)]
    expect([answer.message.content for answer in await asyncio.gather(*asked)], [f"You said: number {i}" for i in range(4)])


@attempt("embeddings")
def _():
    model = OpenAIEmbedding(model_name=EMBEDDING, **of_openai)
    expect([len(vector) for vector in model.get_text_embedding_batch(["a", "b"])], [8, 8])


@attempt("an unknown model has its class of error")
def _():
    try:
        OpenAILike(model="up/none", **like).chat(hi)
    except NotFoundError as error:
        return includes(str(error), 'does not have the model')
    raise AssertionError("no error")
