import { run } from '../daemon/status.ts';
import type { PlainForm } from '../parse/plain-line.ts';
import { quickCommand } from '../quick-command.ts';

export const form: PlainForm = { switches: ['why'], values: ['at'] };

/** The bundle of `svc status`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = quickCommand('status', form, run);
