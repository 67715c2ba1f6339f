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


def includes(text, part):
    assert part in (text or ""), f"{text!r} lacks {part!r}"


PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
