import { asRecord } from '../../json.ts';
/** Texts that no message may repeat. */
/** What no message may show. */
export type Hidden = Pick<Secrets, 'key' | 'texts'>;

export interface Secrets {
  key: string | null;
  /** Where the key is: a reference, or `stored`. Null: there is none. */
  place: string | null;
  texts: readonly (string | null)[];
}

/** The error of an upstream, as far as a message may show it. */
export interface UpstreamError {
  message: string | null;
  /** The upstream's own code or type. */
  code: string | null;
  /** Whether the message is about the model, also if the message is hidden. */
  isAboutModel: boolean;
}

/**
 * Reads the common forms: `{error: {message, code, type}}`, `{error: "…"}`, `{message}`,
 * `{detail}`.
 */
export function parseUpstreamError(value: unknown, secrets: Hidden): UpstreamError {
  const outer = asRecord(value);
  const inner = asRecord(outer.error);
  const message = [inner.message, outer.error, outer.message, outer.detail].find(
    (text) => typeof text === 'string',
  );
  const code = [inner.code, inner.type, outer.code, outer.type].find(
    (name) => (typeof name === 'string' && name !== '') || typeof name === 'number',
  );
  return {
    message: typeof message === 'string' ? sanitize(message, secrets) : null,
    code: code === undefined ? null : String(code).slice(0, CODE_MAX),
    isAboutModel: typeof message === 'string' && /model/i.test(message),
  };
}

/** The upstream's message as the end of one of our sentences. */
export function quote({ message }: UpstreamError): string {
  return message === null ? '' : ` It says: ${message}`;
}

/** Reduces a message to one bounded line. Null: it repeats the key, or a part of the prompt. */
export function sanitize(message: string, { key, texts }: Hidden): string | null {
  const line = oneLine(message.slice(0, 4 * MESSAGE_MAX));
  if (
    line === '' ||
    (key !== null && repeats(line, key, KEY_PIECE)) ||
    texts.some((text) => text !== null && repeats(line, oneLine(text), TEXT_PIECE))
  )
    return null;
  return line.length > MESSAGE_MAX ? `${line.slice(0, MESSAGE_MAX - 1).toWellFormed()}…` : line;
}

const MESSAGE_MAX = 240;
const CODE_MAX = 80;

/** The search finds every part of twice this length, of the key or of a prompt. */
const KEY_PIECE = 6;
const TEXT_PIECE = 16;
/** A shorter prompt occurs in every sentence. */
const SHORTEST = 4;

function repeats(line: string, secret: string, piece: number): boolean {
  if (secret.length < 2 * piece && secret.length >= SHORTEST && line.includes(secret)) return true;
  for (let at = 0; at + piece <= line.length; at += piece)
    if (secret.includes(line.slice(at, at + piece))) return true;
  return false;
}

/** Control and formatting characters could change the terminal. */
function oneLine(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Z}]+/gu, ' ')
    .trim();
}
