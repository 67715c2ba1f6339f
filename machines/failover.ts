import type { Failure } from './events.ts';
import type { RunContext } from './run-context.ts';

/** A provider and model that can answer a run. */
export interface Target {
  readonly provider: string;
  readonly model: string;
  /** The prompt leaves this machine. */
  readonly cloud: boolean;
  /** It can continue from recorded tokens. */
  readonly resumable?: boolean;
}

/** `groq/llama-3.3-70b`, the form of `--model`. */
export function targetName({ provider, model }: Pick<Target, 'provider' | 'model'>): string {
  return `${provider}/${model}`;
}

/** The name to show for a run, whose model may be written with its provider. */
export function shownTarget(asked: Pick<Target, 'provider' | 'model'>): string {
  return asked.model.startsWith(`${asked.provider}/`) ? asked.model : targetName(asked);
}

export function sameTarget(one: Target, other: Target): boolean {
  return one.provider === other.provider && one.model === other.model && one.cloud === other.cloud;
}

/** The request itself is wrong, so every target would say the same. */
const OF_THE_CALLER: ReadonlySet<string> = new Set([
  'usage',
  'invalid_request',
  'prompt_missing',
  'prompt_too_large',
  'prompt_not_text',
  'provider_rejected',
]);

/**
 * Whether another target may answer after an error with this code.
 *
 * 1. A wrong request is wrong at every target: the run fails.
 * 2. Any other error is about one target, such as a key, a model, a limit or a short context.
 *    Another target may have what this one lacks.
 *
 * An answer that a filter cut is complete, so it is no error.
 */
export function mayFailOver(code: string): boolean {
  return !OF_THE_CALLER.has(code);
}

/** The error of a run whose targets all failed: what each of them said last. */
export function exhausted(
  { failed_attempts, request, outputs }: RunContext,
  error: Failure,
): Failure {
  const present = targetName(request);
  const said = new Map(failed_attempts.map((one) => [targetName(one), one.message]));
  const moved = said.size > 1 || (said.size === 1 && !said.has(present));
  if (!moved || outputs > 0 || !mayFailOver(error.code)) return error;
  said.set(present, error.message);
  const all = [...said].map(([target, message]) => `${target}: ${message.replace(/\.$/, '')}`);
  return {
    code: 'targets_failed',
    message: `None of the ${said.size} targets answered. ${all.join('; ')}.`,
    retryable: error.retryable,
  };
}
