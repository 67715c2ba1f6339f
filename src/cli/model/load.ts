import { shownName } from '../../../machines/failover.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes, duration } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const keep = flags['keep-alive'];
  const keep_alive_ms = typeof keep === 'string' ? keepAlive(keep) : null;
  // A server has no file to be judged by.
  const { fit } = await askDaemon(paths, 'model.show', { id: args[0] }).catch(() => NO_FIT);
  if (fit !== undefined && !json) note(fit.text);
  const asked_at = performance.now();
  const model = await askDaemon(
    paths,
    'model.load',
    { model: args[0], keep_alive_ms },
    { timeout_ms: LOAD_MS },
  );
  if (json) printJson(model);
  else {
    const { load_ms } = model;
    // A load that took longer than this request was before it.
    const was = load_ms !== null && load_ms > performance.now() - asked_at;
    const took = load_ms === null || was ? '' : `, in ${duration(load_ms)}`;
    const what = `${oneLine(shownName(model.id))}${was ? ' is in memory already' : ''}`;
    print(`${was ? '' : 'Loaded '}${what}: ${bytes(model.memory_bytes)} reserved${took}.`);
  }
  return 0;
}

const NO_FIT: { fit?: { text: string } } = {};

/** Milliseconds of a text such as 30s, 10m, 2h, or -1 for ever. */
function keepAlive(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,9})(s|m|h)?$/.exec(text) ?? [];
  if (text === '-1') return FOREVER_MS;
  if (count !== '') return Number(count) * ({ m: 60_000, h: 3_600_000 }[unit] ?? 1000);
  throw new SvcError(
    'usage',
    `--keep-alive must be a time such as 30s, 10m or 2h, or -1, not ${JSON.stringify(text)}.`,
  );
}

/** The daemon has its own limit, engine_load_ms. */
const LOAD_MS = 3_700_000;
const FOREVER_MS = 1e15;
