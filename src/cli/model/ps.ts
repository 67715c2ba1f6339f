import { shownName } from '../../../machines/failover.ts';
import type { LoadedModelRecord } from '../../contract/contract.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes, duration } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const loaded = await askDaemon(paths, 'model.ps', {});
  if (json) return printJson(loaded);
  const { models, budget_bytes, reserved_bytes } = loaded;
  if (models.length === 0) note('No local model is in memory. The next run loads one.');
  else
    print(
      table(
        ['MODEL', 'FOR', 'STATE', 'MEMORY', 'RUNS', 'COMPUTES', 'PID', 'LEAVES'],
        models.map((model) => [
          shownName(model.id),
          model.purpose,
          stateOf(model),
          bytes(model.memory_bytes),
          String(model.runs),
          processorText(model),
          model.pid === null ? '-' : String(model.pid),
          expiryText(model),
        ]),
        { spare: ['PID', 'COMPUTES', 'FOR'] },
      ),
    );
  note(`Reserved: ${bytes(reserved_bytes)} of ${bytes(budget_bytes)} for local models.`);
  return 0;
}

function stateOf({ state, progress, error }: LoadedModelRecord): string {
  if (progress !== null) return `${state} ${Math.floor(progress * 100)} %`;
  return error === null ? state : `${state}: ${error}`;
}

/** Its threads, and its layers on a GPU. */
function processorText({ threads, gpu, gpu_layers }: LoadedModelRecord): string {
  if (threads === null) return '-';
  const onGpu = gpu === null || gpu === 'cpu' ? '' : `, ${gpu_layers} layers on ${gpu}`;
  return `${threads} thread${threads === 1 ? '' : 's'}${onGpu}`;
}

function expiryText({ state, expires_at }: LoadedModelRecord): string {
  if (state !== 'idle') return '-';
  return expires_at === null ? 'stays' : `in ${duration(Date.parse(expires_at) - Date.now())}`;
}
