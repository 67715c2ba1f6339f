import type { IncomingMessage, ServerResponse } from 'node:http';
import { callAfter } from '../../async/timers.ts';
import { tooManyValues } from '../../contract/check.ts';
import { SvcError } from '../../errors.ts';
import { excessOf } from '../../json.ts';
import { onAbort } from '../stream/on-abort.ts';

export interface BodyOptions {
  /** Most values of the body. */
  values?: number;
  /** Longest wait for the body. */
  within_ms?: number;
  /** Aborted, with the reason, when the session or token of the request becomes invalid. */
  ended?: AbortSignal;
}

/**
 * The body as JSON. It keeps at most `limit` bytes and drops the rest, so that the client can still
 * read the answer. Throws invalid_request, body_too_large, and request_timed_out after `within_ms`.
 * Throws the reason of `ended`: a slow body must not outlast a sign-out.
 */
export async function readJson(
  req: IncomingMessage,
  res: ServerResponse,
  limit: number,
  options: BodyOptions = {},
): Promise<unknown> {
  if (isFromPage(req) && !JSON_TYPE.test(req.headers['content-type'] ?? ''))
    throw new SvcError(
      'invalid_request',
      'A page must send its body as JSON, with Content-Type: application/json.',
    );
  checkUnread(req, res, limit);
  return parse(await readBytes(req, limit, options), options);
}

/**
 * The body as a form, and its bytes. Throws as `readJson` does. A page must name its token: without
 * that, a browser sends a form to any address.
 */
export async function readForm(
  req: IncomingMessage,
  res: ServerResponse,
  limit: number,
  options: BodyOptions = {},
): Promise<{ form: FormData; bytes: number }> {
  const type = req.headers['content-type'] ?? '';
  const [, quoted, plain] = FORM_TYPE.exec(type) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined)
    throw new SvcError('invalid_request', 'The body must be a form: multipart/form-data.');
  if (isFromPage(req) && req.headers.authorization === undefined)
    throw new SvcError('invalid_request', 'A page must send its token as Authorization: Bearer.');
  checkUnread(req, res, limit);
  const bytes = await readBytes(req, limit, options);
  let parts = 0;
  for (let at = bytes.indexOf(boundary); at >= 0; at = bytes.indexOf(boundary, at + 1))
    if (++parts > FORM_PARTS)
      throw new SvcError('invalid_request', `The form has more than ${FORM_PARTS} parts.`);
  try {
    const headers = { 'content-type': type };
    const form = await new Response(new Uint8Array(bytes), { headers }).formData();
    return { form: form as FormData, bytes: bytes.length };
  } catch (cause) {
    throw new SvcError('invalid_request', 'The body is not a readable form.', { cause });
  }
}

const FORM_TYPE = /^\s*multipart\/form-data\s*;.*?boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i;
/** A transcription has about ten. */
const FORM_PARTS = 64;

function checkUnread(req: IncomingMessage, res: ServerResponse, limit: number): void {
  if ((req.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw new SvcError('invalid_request', 'The body must not be compressed.');
  if (Number(req.headers['content-length'] ?? 0) > limit) throw tooLargeError(limit);
  if (req.headers.expect !== undefined) res.writeContinue();
}

/**
 * A page of another origin may send any other type without asking the daemon first. Other programs
 * often omit the type, or send that of a form.
 */
function isFromPage({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined || headers['sec-fetch-site'] !== undefined;
}

const JSON_TYPE = /^\s*application\/json\s*(;|$)/i;

function readBytes(
  req: IncomingMessage,
  limit: number,
  { within_ms, ended }: BodyOptions,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const endWait = ended && onAbort(ended, () => reject(ended.reason));
    const rejectLate = () =>
      reject(new SvcError('request_timed_out', `The body took longer than ${within_ms} ms.`));
    const endLate = within_ms === undefined ? () => {} : callAfter(within_ms, rejectLate);
    let buffered = NOTHING;
    let bytes = 0;
    req.on('data', (chunk: Buffer) => {
      const before = bytes;
      bytes += chunk.length;
      if (bytes > limit) {
        buffered = NOTHING;
        return reject(tooLargeError(limit));
      }
      // A kept chunk costs hundreds of bytes, and a client can send chunks of one byte. So chunks
      // are copied.
      if (bytes > buffered.length)
        buffered = Buffer.concat(
          [buffered.subarray(0, before)],
          Math.min(limit, Math.max(2 * buffered.length, bytes)),
        );
      chunk.copy(buffered, before);
    });
    req.on('end', () => resolve(buffered.subarray(0, bytes)));
    req.on('error', (cause) => reject(cutOffError(cause)));
    req.on('close', () => {
      endLate();
      endWait?.();
      if (!req.readableEnded) reject(cutOffError());
    });
  });
}

/**
 * Schemas of tools nest a few dozen levels. Code that walks a value has one call for each level.
 */
const LEVELS_MAX = 128;
const NOTHING = Buffer.alloc(0);

/** Throws invalid_request and body_too_large. */
export function parse(bytes: Buffer, { values = Number.POSITIVE_INFINITY }: BodyOptions): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SvcError('invalid_request', 'The body is not UTF-8 text.');
  }
  const excess = excessOf(bytes, { levels: LEVELS_MAX, values });
  if (excess?.bound === 'values') throw tooManyValues(values);
  if (excess?.bound === 'levels')
    throw new SvcError(
      'invalid_request',
      `The body nests objects and lists deeper than ${LEVELS_MAX} levels.`,
    );
  try {
    return JSON.parse(text);
  } catch {
    throw new SvcError('invalid_request', 'The body is not JSON.');
  }
}

function tooLargeError(limit: number): SvcError {
  return new SvcError('body_too_large', `The body has more than ${limit} bytes.`);
}

function cutOffError(cause?: unknown): SvcError {
  return new SvcError('invalid_request', 'The body ended before it was complete.', { cause });
}
