import { type ErrorCode, SvcError } from '../../../errors.ts';
import { CONFLICT } from '../port.ts';
import { conflict } from '../row.ts';

/** An error as it crosses between threads. */
export interface ThrownError {
  code: ErrorCode | typeof CONFLICT;
  message: string;
  hint?: string;
  param?: string | null;
  details?: Record<string, unknown> | undefined;
  /** Text for the log. */
  cause: string;
}

export function packError(thrown: unknown): ThrownError {
  if (thrown instanceof SvcError)
    return {
      code: thrown.code,
      message: thrown.message,
      hint: thrown.hint,
      param: thrown.param,
      details: thrown.details,
      cause: describe(thrown.cause),
    };
  const { code, message } = thrown as Error & { code?: string };
  return code === CONFLICT
    ? { code, message, cause: '' }
    : {
        code: 'store_failed',
        message: new SvcError('store_failed').message,
        cause: describe(thrown),
      };
}

export function unpackError({ code, message, hint, param, details, cause }: ThrownError): Error {
  if (code === CONFLICT) return conflict(message);
  return new SvcError(code, message, {
    ...(cause ? { cause: new Error(cause) } : {}),
    ...(hint ? { hint } : {}),
    ...(param ? { param } : {}),
    ...(details ? { details } : {}),
  });
}

function describe(cause: unknown): string {
  if (!(cause instanceof Error)) return cause === undefined ? '' : String(cause);
  const { code } = cause as { code?: unknown };
  return code === undefined ? cause.message : `${code}: ${cause.message}`;
}
