#!/bin/sh
# Starts a run, follows its events to the end, and asks in the form of OpenAI.
set -eu
url=${SVC_URL:-http://127.0.0.1:4780}
auth="Authorization: Bearer $SVC_TOKEN"

# The header names the run. With an idempotency key, a second request gets the same run.
curl --silent --show-error --fail-with-body --no-buffer "$url/v1/runs" \
  -H "$auth" -H 'Content-Type: application/json' -H 'Accept: text/event-stream' \
  -H "Idempotency-Key: example-$$-$(date +%s)" \
  -d '{"prompt": "What is an event?"}'

curl --silent --show-error --fail-with-body "$url/v1/chat/completions" \
  -H "$auth" -H 'Content-Type: application/json' \
  -d '{"model": "local/svc-mini", "messages": [{"role": "user", "content": "What is a run?"}]}'
