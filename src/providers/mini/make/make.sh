#!/bin/sh
# Makes svc-mini again from its corpus and the command table. PYTHON names an interpreter that has PyTorch and NumPy.
set -eu
cd "$(dirname "$0")/../../../.."
PATH="$PWD/node_modules/.bin:$PATH"
PYTHON="${PYTHON:-python3}"
mini=src/providers/mini
work="${1:-.train}"
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
mkdir -p "$work"
tsx "$mini/make/tables.ts" > "$work/tables.json"
train="$mini/make/train.py --tables $work/tables.json"
# At a steady rate and with dropout at first; then without it, while the rate goes down.
OMP_NUM_THREADS=2 "$PYTHON" $train --out "$work/first.pt" --seed 1 --steps 22000 --cool 8000 --stop 8000
OMP_NUM_THREADS=1 "$PYTHON" $train --out "$work/svc-mini.pt" --start "$work/first.pt" --seed 2 --steps 7500 --cool 300 --rows 96 --dropout 0 --threads 1
"$PYTHON" "$mini/make/export.py" --checkpoint "$work/svc-mini.pt" --tables "$work/tables.json" --confidence "$mini/make/confidence.json" \
  --gguf "$mini/svc-mini.gguf" --fingerprint "$mini/fingerprint.json" --fixture test/providers/mini/trainer-tokens.jsonl
