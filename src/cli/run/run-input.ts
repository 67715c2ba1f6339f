import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SvcError } from '../../errors.ts';
import { limitSpecs } from '../../limits.ts';
import type { Flags } from '../context.ts';
import { numberFlag, secondsFlag, textFlag, wholeFlag } from '../parse/flag-values.ts';
import { isArgumentText } from './argument-text.ts';

/** The request of a run without its prompt. The daemon has defaults for omitted fields. */
export function readRunInput(flags: Flags): Record<string, unknown> {
  const model = textFlag(flags, 'model');
  const fields = {
    provider: textFlag(flags, 'provider'),
    model: model === undefined ? undefined : absoluteModel(model),
    cloud: flags.cloud === true ? true : undefined,
    system: readSystem(flags),
    max_tokens: wholeFlag(flags, 'max-tokens', { min: 1, max: limitSpecs.output_tokens.max }),
    temperature: numberFlag(flags, 'temperature', { min: 0, max: 2 }),
    seed: wholeFlag(flags, 'seed', { min: 0, max: 2 ** 32 - 1 }),
    recovery: textFlag(flags, 'recovery'),
    idempotency_key: textFlag(flags, 'idempotency-key'),
    client: textFlag(flags, 'client') ?? `command line ${process.ppid}`,
    cancel_on_disconnect: flags['cancel-on-disconnect'] === true ? true : undefined,
    timeout_ms: secondsFlag(flags, 'timeout', { min: 0.001, max: limitSpecs.run_ms.max / 1000 }),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function readSystem(flags: Flags): string | undefined {
  const { system } = flags;
  if (typeof system !== 'string' || system === '') return undefined;
  if (!isArgumentText(system))
    throw new SvcError('prompt_not_text', 'The system text is not UTF-8 text.', {
      param: 'system',
    });
  return system;
}

/**
 * The daemon has another working folder, so a path is made absolute. A bare name may be in the
 * models folder.
 */
function absoluteModel(model: string): string {
  const isPath = /^\.{1,2}[\\/]/.test(model) || (model.endsWith('.gguf') && existsSync(model));
  return isPath ? resolve(model) : model;
}
