import type { PlainForm } from '../parse/plain-line.ts';
import { quickCommand } from '../quick-command.ts';
import { run } from '../version.ts';

export const form: PlainForm = {};

/** The bundle of `svc version`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = quickCommand('version', form, run);
