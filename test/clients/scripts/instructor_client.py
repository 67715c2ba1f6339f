import instructor
from anthropic import Anthropic
from cases import MODEL, TOKEN, URL, attempt, expect
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

Mode = instructor.Mode


class Place(BaseModel):
    city: str
    people: int


# The model is a script: it fills in tools and schemas, and cannot write JSON that is only described.
CLIENTS = {
    "tools": instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key=TOKEN), mode=Mode.TOOLS),
    "strict tools": instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key=TOKEN), mode=Mode.TOOLS_STRICT),
    "schema": instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key=TOKEN), mode=Mode.JSON_SCHEMA),
    "responses": instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key=TOKEN), mode=Mode.RESPONSES_TOOLS),
    "messages": instructor.from_anthropic(Anthropic(base_url=URL, api_key=TOKEN), mode=Mode.ANTHROPIC_TOOLS),
}
asked = {"model": MODEL, "max_tokens": 500, "max_retries": 0}
messages = [{"role": "user", "content": "Place 7"}]

for name, client in CLIENTS.items():

    @attempt(f"{name}: an answer of a class")
    def _():
        answer = client.create(**asked, messages=messages, response_model=Place)
        expect((answer.city, answer.people), ("Paris", 7))

    @attempt(f"{name}: a list")
    def _():
        expect([each.people for each in client.create_iterable(**asked, messages=messages, response_model=Place)], [7])

    @attempt(f"{name}: in parts")
    def _():
        parts = list(client.create_partial(**asked, messages=messages, response_model=Place))
        expect((parts[-1].city, parts[-1].people), ("Paris", 7))


@attempt("an answer of a class, asynchronously")
async def _():
    client = instructor.from_openai(AsyncOpenAI(base_url=f"{URL}/v1", api_key=TOKEN))
    expect((await client.create(**asked, messages=messages, response_model=Place)).people, 7)


@attempt("what is refused says why")
def _():
    try:
        CLIENTS["tools"].create(**{**asked, "model": "up/none"}, messages=messages, response_model=Place)
    except Exception as error:
        assert "does not have the model" in str(error), error
        return
    raise AssertionError("no error")
