import type { Failure } from '../../../../machines/events.ts';
import { type ErrorCode, errors } from '../../../errors.ts';

/** Why the engine could not do what it was asked, in our words; the cause goes to its log only. */
export class EngineFault extends Error {
  readonly failure: Failure;

  constructor(
    code: ErrorCode,
    message: string = errors[code].meaning,
    cause?: unknown,
    retryable: boolean = errors[code].retryable,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EngineFault';
    this.failure = { code, message, retryable };
  }
}

/** Whatever was thrown, as one of ours. */
export function asFault(thrown: unknown): EngineFault {
  return thrown instanceof EngineFault
    ? thrown
    : new EngineFault('engine_failed', undefined, thrown);
}
