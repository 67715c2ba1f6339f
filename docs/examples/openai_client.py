import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SVC_URL", "http://127.0.0.1:4780") + "/v1",
    api_key=os.environ["SVC_TOKEN"],
)

stream = client.chat.completions.create(
    model="local/svc-mini",
    messages=[{"role": "user", "content": "What is a run?"}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="")
print()
