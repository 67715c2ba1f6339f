import json

import outlines
from cases import MODEL, TOKEN, URL, attempt, expect
from ollama import Client as Ollama
from openai import OpenAI
from pydantic import BaseModel


class Place(BaseModel):
    city: str
    people: int


openai = OpenAI(base_url=f"{URL}/v1", api_key=TOKEN, max_retries=0)
MODELS = {
    "openai": outlines.from_openai(openai, MODEL),
    "vllm": outlines.from_vllm(openai, MODEL),
    "sglang": outlines.from_sglang(openai, MODEL),
    "ollama": outlines.from_ollama(Ollama(host=URL, headers={"Authorization": f"Bearer {TOKEN}"}), MODEL),
}

for name, model in MODELS.items():

    @attempt(f"{name}: text")
    def _():
        expect(model("hello there"), "You said: hello there")

    @attempt(f"{name}: stream")
    def _():
        expect("".join(model.stream("hello there")), "You said: hello there")

    @attempt(f"{name}: an answer of a class")
    def _():
        expect(json.loads(model("7 people", Place)), {"city": "Paris", "people": 7})
