import type { PlainForm } from '../parse/plain-line.ts';
import { quickCommand } from '../quick-command.ts';
import { run } from '../run/run.ts';

export const form: PlainForm = {
  switches: ['cloud', 'cancel-on-disconnect', 'no-stream', 'no-start', 'detach'],
  values: [
    ...['provider', 'model', 'system', 'max-tokens', 'temperature', 'seed', 'timeout'],
    ...['recovery', 'idempotency-key', 'client'],
  ],
  short: { p: 'provider', m: 'model' },
  words: 1,
};

/** The bundle of `svc run`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = quickCommand('run', form, run);
