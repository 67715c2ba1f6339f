import os
import sys
import tempfile
from pathlib import Path

from cases import MODEL, TOKEN, URL, attempt, includes
from programs import run

program = str(Path(sys.executable).parent / "aider")
flags = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-analytics", "--no-pretty", "--no-gitignore", "--map-tokens", "0", "--edit-format", "whole", "--message", "say hello there"]
base = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

for prefix, env in {
    "openai/": {"OPENAI_API_BASE": f"{URL}/v1", "OPENAI_API_KEY": TOKEN},
    "ollama_chat/": {"OLLAMA_API_BASE": URL, "OLLAMA_API_KEY": TOKEN},
}.items():

    @attempt(prefix)
    def _():
        with tempfile.TemporaryDirectory() as folder:
            said = run(program, "--model", prefix + MODEL, *flags, env={**base, **env}, cwd=folder)
        includes(said, "You said")
