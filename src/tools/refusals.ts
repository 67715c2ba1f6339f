import { SdkError, type SdkErrorCode } from '@modelcontextprotocol/client';
import { NotSent } from './child-transport.ts';
import { HttpRefusal } from './http-transport.ts';

/** The meaning of an error of a session with a tool server. */

export const TOO_MANY = 429;
const AWAY = 503;
/** A server that names a shorter time is called again after this. */
const PAUSE_LEAST_MS = 500;

/** How long a server that cannot serve now wants to be left alone. Null: it does not say. */
export function pauseOf(thrown: unknown): number | null {
  if (!(thrown instanceof HttpRefusal) || thrown.retry_after_ms === null) return null;
  const isLater = thrown.status === TOO_MANY || thrown.status === AWAY;
  return isLater ? Math.max(thrown.retry_after_ms, PAUSE_LEAST_MS) : null;
}

export function codeOf(thrown: unknown): SdkErrorCode | null {
  return SdkError.isInstance(thrown) ? thrown.code : null;
}

export function statusOf(thrown: unknown): number | undefined {
  return thrown instanceof HttpRefusal ? thrown.status : undefined;
}

/** Whether the call surely did not reach the tool. */
export function isUnsent(thrown: unknown): boolean {
  const status = statusOf(thrown);
  if (status !== undefined) return status >= 400 && status < 500 && status !== 408;
  for (let error = thrown; error instanceof Error; error = error.cause)
    if (error instanceof NotSent) return true;
  return false;
}
