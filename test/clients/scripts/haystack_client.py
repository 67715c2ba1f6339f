from cases import EMBEDDING, MODEL, PNG, TOKEN, URL, attempt, expect, includes
from haystack.components.agents import Agent
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage, Document, ImageContent
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from openai import NotFoundError
from pydantic import BaseModel

svc = {"api_base_url": f"{URL}/v1", "api_key": Secret.from_token(TOKEN), "max_retries": 0}
hi = [ChatMessage.from_user("hello there")]


class Place(BaseModel):
    city: str
    people: int


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


for name, generator in {"chat": OpenAIChatGenerator, "responses": OpenAIResponsesChatGenerator}.items():

    @attempt(f"{name}: text")
    def _():
        expect(generator(model=MODEL, **svc).run(hi)["replies"][0].text, "You said: hello there")

    @attempt(f"{name}: stream")
    def _():
        parts = []
        generator(model=MODEL, streaming_callback=lambda part: parts.append(part.content), **svc).run(hi)
        expect("".join(part or "" for part in parts), "You said: hello there")

    @attempt(f"{name}: an agent calls a tool")
    def _():
        agent = Agent(chat_generator=generator(model=MODEL, **svc), tools=[create_tool_from_function(weather)])
        includes(agent.run([ChatMessage.from_user("call weather")])["messages"][-1].text, "rain in Paris")

    @attempt(f"{name}: an image")
    def _():
        message = ChatMessage.from_user(content_parts=["what?", ImageContent(PNG, mime_type="image/png")])
        includes(generator(model=MODEL, **svc).run([message])["replies"][0].text, "[image]")

    @attempt(f"{name}: an unknown model has its class of error")
    def _():
        try:
            generator(model="up/none", **svc).run(hi)
        except NotFoundError as error:
            return includes(str(error), 'does not have the model')
        raise AssertionError("no error")


@attempt("an answer of a class")
def _():
    generator = OpenAIChatGenerator(model=MODEL, generation_kwargs={"response_format": Place}, **svc)
    expect(Place.model_validate_json(generator.run(hi)["replies"][0].text), Place(city="Paris", people=2))


@attempt("embeddings of a text and of documents")
def _():
    expect(len(OpenAITextEmbedder(model=EMBEDDING, api_base_url=svc["api_base_url"], api_key=svc["api_key"]).run("a")["embedding"]), 8)
    found = OpenAIDocumentEmbedder(model=EMBEDDING, api_base_url=svc["api_base_url"], api_key=svc["api_key"]).run([Document(content="a"), Document(content="b")])
    expect([len(document.embedding) for document in found["documents"]], [8, 8])
