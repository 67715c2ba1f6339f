import { run } from '../logs/logs.ts';
import type { PlainForm } from '../parse/plain-line.ts';
import { quickCommand } from '../quick-command.ts';

export const form: PlainForm = {
  switches: ['follow'],
  values: ['tail', 'level', 'run', 'since'],
  short: { n: 'tail', f: 'follow' },
};

/** The bundle of `svc logs`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = quickCommand('logs', form, run);
