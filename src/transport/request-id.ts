import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/**
 * The id of a request, which its answer has as `X-Request-Id`, and each log line of its failure. A
 * client may choose it in its own header, so that its logs and ours have one name.
 */
export function requestIdOf(req?: Pick<IncomingMessage, 'headers'>): string {
  const chosen = req?.headers['x-request-id'];
  if (typeof chosen === 'string' && CHOSEN.test(chosen)) return chosen;
  count += 1;
  return `${PREFIX}${count.toString(36)}`;
}

/** The id is in headers and in log lines. */
const CHOSEN = /^[\x21-\x7e]{1,128}$/;
/** Another process counts from 1 again. */
const PREFIX = `req_${randomBytes(6).toString('hex')}_`;
let count = 0;
