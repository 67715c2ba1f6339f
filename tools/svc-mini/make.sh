#!/bin/sh
# Makes svc-mini again from its corpus and the command table. PYTHON names an interpreter that has PyTorch and NumPy.
set -eu
cd "$(dirname "$0")/../.."
PATH="$PWD/node_modules/.bin:$PATH"
PYTHON="${PYTHON:-python3}"
mini=src/providers/mini
work="${1:-.train}"
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
mkdir -p "$work"
node "tools/svc-mini/tables.ts" > "$work/tables.json"
OMP_NUM_THREADS=2 "$PYTHON" "tools/svc-mini/train.py" --tables "$work/tables.json" --out "$work/svc-mini.pt" --seed 1 --teacher-steps 7000 --steps 36000 --cool 14000
"$PYTHON" "tools/svc-mini/export.py" --checkpoint "$work/svc-mini.pt" --tables "$work/tables.json" --confidence "tools/svc-mini/confidence.json" \
  --gguf "$mini/svc-mini.gguf" --taught "tools/svc-mini/taught.json" --fixture test/providers/mini/trainer-tokens.jsonl
