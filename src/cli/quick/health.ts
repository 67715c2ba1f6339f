import { run } from '../health/health.ts';
import type { PlainForm } from '../parse/plain-line.ts';
import { quickCommand } from '../quick-command.ts';

export const form: PlainForm = { switches: ['watch'], values: ['source'] };

/** The bundle of `svc health`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = quickCommand('health', form, run);
