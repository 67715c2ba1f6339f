import type { Target } from '../src/contract/events.ts';
import type { Failure } from './events.ts';
import type { RunContext } from './run/context.ts';

/** `groq/llama-3.3-70b`, the form of `--model`. */
export function targetName({ provider, model }: Pick<Target, 'provider' | 'model'>): string {
  return `${provider}/${model}`;
}

/** The name to show for a run, whose model may be written with its provider. */
export function shownTarget(target: Pick<Target, 'provider' | 'model'>): string {
  const { provider, model } = target;
  return shownName(model.startsWith(`${provider}/`) ? model : targetName(target));
}

/** The same for a whole name. A path says itself that the model is a file of this machine. */
export function shownName(name: string): string {
  return name.replace(/^local\/(?=\/|[A-Za-z]:[\\/])/, '');
}

export function sameTarget(one: Target, other: Target): boolean {
  return one.provider === other.provider && one.model === other.model && one.cloud === other.cloud;
}

/** The request itself is wrong, so every target would reject it. */
const OF_THE_CALLER: ReadonlySet<string> = new Set([
  'usage',
  'invalid_request',
  'prompt_missing',
  'prompt_too_large',
  'prompt_not_text',
]);

/** The provider rejects the request: another provider may accept its parameter or form. */
const REJECTED = 'provider_rejected';

/**
 * Whether another target may answer after an error with this code. `before`: the attempts that
 * failed before it.
 *
 * 1. A wrong request is wrong at every target: the run fails.
 * 2. One provider that rejects it may lack what the next one has. The second rejection ends the
 *    run: then the request is wrong.
 * 3. Any other error is about one target, such as a key, a model, a limit or a short context.
 *    Another target may have what this one lacks.
 *
 * An answer that a filter cut is complete, so it is no error.
 */
export function mayFailOver(code: string, before: readonly { code: string }[] = []): boolean {
  if (code === REJECTED) return before.every((one) => one.code !== REJECTED);
  return !OF_THE_CALLER.has(code);
}

/** A third-party text with a full stop, so that another sentence can follow. */
export function asSentence(text: string): string {
  return /[.!?…。！？][\p{Pe}\p{Pf}"'`]*$/u.test(text) ? text : `${text}.`;
}

/**
 * The error of a run whose targets all failed: the last error of each. It is retryable if one of
 * them is, and has the status that all of them had.
 */
export function allTargetsError(
  { failed_attempts, request, outputs, fallbacks }: RunContext,
  error: Failure,
  now: number,
): Failure {
  const present = targetName(request);
  const last = new Map<string, Failure & { at: number }>(
    failed_attempts.map((one) => [targetName(one), one]),
  );
  const moved = last.size > 1 || (last.size === 1 && !last.has(present));
  if (!moved || outputs > 0 || OF_THE_CALLER.has(error.code)) return error;
  last.set(present, { ...error, at: now });
  const all = [...last].map(([target, { message }]) => `${target}: ${message.replace(/\.$/, '')}`);
  const [status, ...others] = new Set([...last.values()].map((one) => one.status));
  const again = [...last.values()].filter(({ retryable }) => retryable);
  const waits = again.map(({ retry_after_ms = 0, at }) => Math.max(0, at + retry_after_ms - now));
  const wait_ms = Math.min(...waits);
  const what =
    fallbacks.length === 0
      ? `None of the ${last.size} targets answered.`
      : `${last.size} targets did not take the request, so no other one is asked.`;
  return {
    code: 'targets_failed',
    message: `${what} ${all.join('; ')}.`,
    retryable: again.length > 0,
    ...(status === undefined || others.length > 0 ? {} : { status }),
    ...(wait_ms > 0 && wait_ms < Number.POSITIVE_INFINITY ? { retry_after_ms: wait_ms } : {}),
  };
}
