#!/bin/sh
# Makes svc-mini again from its corpus and the command table. PYTHON names an interpreter that has PyTorch and NumPy.
set -eu
cd "$(dirname "$0")/../../../.."
PATH="$PWD/node_modules/.bin:$PATH"
PYTHON="${PYTHON:-python3}"
mini=src/providers/mini
work="${1:-.train}"
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
mkdir -p "$work"
tsx "$mini/make/tables.ts" > "$work/tables.json"
# At a steady rate at first, and with more of the questions at each stage; the rate goes down in the last one.
train="$mini/make/train.py --tables $work/tables.json"
"$PYTHON" $train --out "$work/first.pt" --seed 1 --steps 8000 --cool 5200 --stop 1500 --without ways-third ways-fourth foreign-third
"$PYTHON" $train --out "$work/second.pt" --start "$work/first.pt" --seed 2 --steps 9000 --cool 5000 --stop 3000 --without ways-fourth
"$PYTHON" $train --out "$work/svc-mini.pt" --start "$work/second.pt" --seed 3 --steps 2700 --cool 780
"$PYTHON" "$mini/make/export.py" --checkpoint "$work/svc-mini.pt" --tables "$work/tables.json" --confidence "$mini/make/confidence.json" \
  --gguf "$mini/svc-mini.gguf" --fingerprint "$mini/fingerprint.json" --fixture test/providers/mini/trainer-tokens.jsonl
