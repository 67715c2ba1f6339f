import { asSentence } from '../../../machines/failover.ts';
import { boundedWait } from '../../http-client/retry-after.ts';
import { asRecord, parseForeignJson } from '../../json.ts';

/** The texts that no message may show. */
export type Hidden = Pick<Secrets, 'key' | 'texts'>;

export interface Secrets {
  key: string | null;
  /** Where the key is: a reference, or `stored`. Null: no key is needed. */
  place: string | null;
  texts: readonly (string | null)[];
}

/** The error of an upstream, as far as a message may show it. */
export interface UpstreamError {
  message: string | null;
  /** The upstream's own codes and types, the most exact one first. */
  codes: readonly string[];
  /** The field of the request that it names. */
  param: string | null;
  /** The wait that it asks for in its body. */
  retryAfterMs: number | null;
  /** The meaning of its words, also if the message is hidden. */
  means: ReturnType<typeof meaningOf>;
  /** Whether the message is about the model, also if the message is hidden. */
  isAboutModel: boolean;
}

/** The parts of an error, as the upstream sent them. */
interface Reported {
  message: string | null;
  error: Record<string, unknown>;
  outer: Record<string, unknown>;
}

/**
 * Finds the error in the common forms:
 *
 * 1. `{error: {message, code, type}}`, `{error: "…"}`, `{message}`, `{detail}`, and lists of them.
 * 2. `{detail: [{msg, loc}]}` of a check by pydantic.
 * 3. `{response: {error}}` of the Responses API.
 * 4. `{validationException: {message}}` and the like of Amazon.
 * 5. `{error: {metadata: {raw}}}` of a gateway: the words of the server behind it.
 * 6. A text.
 */
function reportedIn(value: unknown): Reported {
  if (typeof value === 'string') return { message: value || null, error: {}, outer: {} };
  const outer = asRecord(Array.isArray(value) ? value[0] : value);
  const [, exception] = Object.entries(outer).find(([name]) => /Exception$/.test(name)) ?? [];
  const error = asRecord(outer.error ?? asRecord(outer.response).error ?? exception);
  const [fault] = Array.isArray(outer.detail) ? outer.detail : [];
  const { raw } = asRecord(error.metadata);
  const innerError =
    typeof raw === 'string' ? parseForeignJson(raw.slice(0, WORDS_MAX)) : undefined;
  const message = [
    innerError === undefined ? raw : reportedIn(innerError).message,
    error.message,
    outer.error,
    outer.message,
    outer.Message,
    outer.detail,
    asRecord(fault).msg,
  ].find((text) => typeof text === 'string' && text !== '');
  return { message: typeof message === 'string' ? message : null, error, outer };
}

/** The body of an error: JSON, or a text. Undefined: a page, or nothing. */
export function errorBody(text: string | null, type: string | null | undefined): unknown {
  const value = parseForeignJson(text);
  if (value !== undefined || text === null) return value;
  const isText = type == null || type === '' || /^text\/plain\b/i.test(type);
  return isText && !/^\s*[<{[]/.test(text) ? text.trim() : undefined;
}

/**
 * The words of an error as they came. They may repeat texts of the request, so nothing shows them.
 */
export function wordsIn(value: unknown): string {
  const { message, error, outer } = reportedIn(value);
  return `${paramOf(error, outer) ?? ''} ${message ?? ''}`.slice(0, WORDS_MAX);
}

export function parseUpstreamError(value: unknown, secrets: Hidden): UpstreamError {
  const { message, error, outer } = reportedIn(value);
  const codes = [error.code, error.type, outer.code, outer.type, error.status].filter(
    (name) => (typeof name === 'string' && name !== '') || typeof name === 'number',
  );
  return {
    message: message === null ? null : sanitize(message, secrets),
    codes: codes.map((name) => String(name).slice(0, CODE_MAX)),
    param: paramOf(error, outer),
    retryAfterMs: waitIn(error.details),
    means: message === null ? null : meaningOf(message.slice(0, WORDS_MAX)),
    isAboutModel: message !== null && /model/i.test(message),
  };
}

/** A name is shown. Anything else may be a part of the request. */
function paramOf(error: Record<string, unknown>, outer: Record<string, unknown>): string | null {
  const [fault] = Array.isArray(outer.detail) ? outer.detail : [];
  const { loc } = asRecord(fault);
  const place = Array.isArray(loc) ? loc.filter((part) => part !== 'body').join('.') : undefined;
  const param = [error.param, outer.param, place].find((text) => typeof text === 'string');
  return typeof param === 'string' && /^[a-z_][\w.[\]-]{0,79}$/i.test(param) ? param : null;
}

/** Google says a wait in a part of its error, and in no header. */
function waitIn(details: unknown): number | null {
  for (const part of Array.isArray(details) ? details.slice(0, DETAILS_MAX) : []) {
    const [, seconds] = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(String(asRecord(part).retryDelay)) ?? [];
    if (seconds !== undefined) return boundedWait(Number(seconds) * 1000);
  }
  return null;
}

/** The upstream's message as the end of one of our sentences. */
export function quote({ message }: UpstreamError): string {
  return message === null ? '' : ` It says: ${asSentence(message)}`;
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
/** Characters in which known words are looked for. */
const WORDS_MAX = 8192;
const DETAILS_MAX = 16;
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

/**
 * Meanings that a provider gives in words alone: its code is empty, or says less. Each row is one
 * family of servers. The patterns have no repetition that could take long.
 */
export const WORDS: readonly (readonly [means: 'too_long' | 'no_credit', pattern: RegExp])[] = [
  // OpenAI, Azure, vLLM, OpenRouter, Together, Mistral, Fireworks, sglang
  ['too_long', /maximum context length/i],
  ['too_long', /exceeds? the context (window|length|size)/i],
  ['too_long', /reduce the length of the (input|messages|prompt)/i],
  // vLLM
  ['too_long', /longer than the maximum model length/i],
  // sglang
  ['too_long', /longer than the model's context length/i],
  // Anthropic, also on Vertex and Bedrock
  ['too_long', /prompt is too long/i],
  ['too_long', /input length and `?max_tokens`? exceed context limit/i],
  // Bedrock
  ['too_long', /input is too long for (the )?requested model/i],
  ['too_long', /too many (input )?tokens: total number of tokens in the prompt/i],
  // Gemini
  ['too_long', /input token count .{0,40}exceeds the maximum number of tokens/i],
  // llama-server
  ['too_long', /exceeds the available context size/i],
  ['too_long', /input is too large to process/i],
  // Ollama
  ['too_long', /prompt too long; exceeded max context length/i],
  // LM Studio
  ['too_long', /loaded with context length of only/i],
  ['too_long', /greater than the context length/i],
  // Text Generation Inference
  ['too_long', /`?inputs`? tokens \+ `?max_new_tokens`? must be/i],
  // xAI, Copilot, Moonshot, GLM, MiniMax
  ['too_long', /maximum prompt length is/i],
  ['too_long', /prompt token count of \d+ exceeds the limit/i],
  ['too_long', /exceeded model token limit/i],
  ['too_long', /prompt exceeds max length/i],
  ['too_long', /context window exceeds limit/i],
  // Anthropic
  ['no_credit', /credit balance is too low/i],
  // xAI
  ['no_credit', /used all available credits/i],
  // DeepSeek, OpenRouter, and gateways
  ['no_credit', /insufficient (account )?(balance|credit|funds|quota)/i],
];

/** The meaning of a message. Null: its words are not known. */
export function meaningOf(message: string): 'too_long' | 'no_credit' | null {
  return WORDS.find(([, pattern]) => pattern.test(message))?.[0] ?? null;
}
