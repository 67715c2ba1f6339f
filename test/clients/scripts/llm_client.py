import os
import sys
from pathlib import Path

from cases import MODEL, TOKEN, URL, attempt, expect, includes
from programs import run

program = str(Path(sys.executable).parent / "llm")
folder = Path.cwd() / "llm-data"
folder.mkdir(exist_ok=True)
(folder / "extra-openai-models.yaml").write_text(
    f"- model_id: mine\n  model_name: {MODEL}\n  api_base: {URL}/v1\n  api_key_name: svc\n  supports_tools: true\n  supports_schema: true\n  vision: true\n"
)
(folder / "keys.json").write_text('{"svc": "%s"}' % TOKEN)
env = {**os.environ, "LLM_USER_PATH": str(folder), "OLLAMA_HOST": f"{URL}/t/{TOKEN}"}


@attempt("a prompt, streamed")
def _():
    includes(run(program, "-m", "mine", "hello there", env=env), "You said: hello there")


@attempt("a prompt, whole")
def _():
    includes(run(program, "-m", "mine", "--no-stream", "hello there", env=env), "You said: hello there")


@attempt("a schema")
def _():
    includes(run(program, "-m", "mine", "--schema", "city, people int", "x", env=env), "Paris")


@attempt("a tool")
def _():
    said = run(program, "-m", "mine", "--functions", "def weather(city: str) -> str:\n    return 'rain in ' + city", "call weather", env=env)
    includes(said, "rain in Paris")


@attempt("each model of llm-ollama has its own name")
def _():
    names = [line for line in run(program, "ollama", "models", env=env).splitlines() if "up/" in line]
    expect(len(names) >= 3, True)


@attempt("a prompt of llm-ollama")
def _():
    includes(run(program, "-m", f"ollama/{MODEL}", "hello there", env=env), "You said: hello there")
