# What the scripts share: each case prints its outcome as one line.
import asyncio
import inspect
import json
import os

URL = os.environ["SVC_URL"]
TOKEN = os.environ["SVC_TOKEN"]
MODEL = os.environ["SVC_MODEL_ID"]
THINKING = os.environ["SVC_THINKING_ID"]
EMBEDDING = os.environ["SVC_EMBEDDING_ID"]
# The model is a real one, of `npm run clients -- --real`.
REAL = "SVC_REAL" in os.environ
LOOP = asyncio.new_event_loop()


def told(name, ok, why=""):
    print("CASE " + json.dumps({"name": name, "ok": ok, "why": str(why)[:300]}), flush=True)


def attempt(name):
    """Runs the function below it as one case."""

    def run(work):
        try:
            # Libraries keep connections of one loop.
            LOOP.run_until_complete(work()) if inspect.iscoroutinefunction(work) else work()
            told(name, True)
        except BaseException as error:
            told(name, False, f"{type(error).__name__}: {error}")
        return work

    return run


def expect(seen, wanted):
    assert seen == wanted, f"{seen!r} is not {wanted!r}"


def says(seen, wanted):
    """What the model says. The scripted one says just that; a real one says something of the kind."""
    expect(kind_of(seen), kind_of(wanted)) if REAL else expect(seen, wanted)


def kind_of(value):
    if isinstance(value, list):
        return [kind_of(each) for each in value]
    if isinstance(value, dict):
        return {name: kind_of(each) for name, each in value.items()}
    return value if value in ("", None) else type(value).__name__


def required(choice):
    """A real model has a choice, so the case of a call requires one of it."""
    return {"tool_choice": choice} if REAL else {}


def includes(text, part):
    if REAL:
        return says(text, part)
    assert part in (text or ""), f"{text!r} lacks {part!r}"


PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
