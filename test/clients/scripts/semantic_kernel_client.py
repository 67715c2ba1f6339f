import json

from cases import EMBEDDING, MODEL, TOKEN, URL, attempt, expect, includes
from openai import AsyncOpenAI
from pydantic import BaseModel
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent, OpenAIResponsesAgent
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings, OpenAITextEmbedding
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


class Place(BaseModel):
    city: str
    people: int


class Weather:
    @kernel_function(description="The weather of a city.")
    def weather(self, city: str) -> str:
        return f"rain in {city}"


def client():
    return AsyncOpenAI(base_url=f"{URL}/v1", api_key=TOKEN, max_retries=0)


def history(text):
    talk = ChatHistory()
    talk.add_user_message(text)
    return talk


service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client())


@attempt("chat")
async def _():
    answer = await service.get_chat_message_content(history("hello there"), OpenAIChatPromptExecutionSettings())
    expect((answer.content, answer.metadata["usage"].completion_tokens), ("You said: hello there", 4))


@attempt("chat, streamed")
async def _():
    parts = service.get_streaming_chat_message_content(history("hello there"), OpenAIChatPromptExecutionSettings())
    expect("".join([str(part) async for part in parts]), "You said: hello there")


@attempt("functions are called")
async def _():
    kernel = Kernel()
    kernel.add_plugin(Weather(), "sky")
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=FunctionChoiceBehavior.Auto())
    answer = await service.get_chat_message_content(history("call weather"), settings, kernel=kernel)
    expect(answer.content, "The tool said: rain in Paris")


@attempt("an answer of a class")
async def _():
    settings = OpenAIChatPromptExecutionSettings(response_format=Place)
    answer = await service.get_chat_message_content(history("hello there"), settings)
    expect(json.loads(answer.content), {"city": "Paris", "people": 2})


@attempt("an agent with chat calls a function")
async def _():
    agent = ChatCompletionAgent(service=service, name="agent", plugins=[Weather()])
    includes(str((await agent.get_response("call weather")).content), "rain in Paris")


@attempt("an agent with responses calls a function")
async def _():
    agent = OpenAIResponsesAgent(ai_model_id=MODEL, client=client(), name="agent", plugins=[Weather()])
    includes(str((await agent.get_response("call weather")).content), "rain in Paris")


@attempt("embeddings")
async def _():
    vectors = await OpenAITextEmbedding(ai_model_id=EMBEDDING, async_client=client()).generate_embeddings(["a", "b"])
    expect([len(vector) for vector in vectors], [8, 8])


@attempt("an unknown model says so")
async def _():
    try:
        other = OpenAIChatCompletion(ai_model_id="up/none", async_client=client())
        await other.get_chat_message_content(history("x"), OpenAIChatPromptExecutionSettings())
    except Exception as error:
        return includes(str(error), "does not have the model")
    raise AssertionError("no error")
