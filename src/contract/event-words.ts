/** Words for the sentences about events. The data may come from an untrusted file. */

export type Data = Readonly<Record<string, unknown>>;

/** Local time of day with milliseconds. */
export function clock(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return 'an unknown time';
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => digits(part));
  return `${time.join(':')}.${digits(date.getMilliseconds(), 3)}`;
}

/** Local date. */
export function day(at: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '';
  return [date.getFullYear(), digits(date.getMonth() + 1), digits(date.getDate())].join('-');
}

function digits(value: number, count = 2): string {
  return String(value).padStart(count, '0');
}

export function target(value: unknown): string {
  const { provider, model } = inner(value);
  return `${word(provider)}/${word(model)}`;
}

/** The targets after the first one. */
export function fallbacksText(fallbacks: unknown): string {
  return Array.isArray(fallbacks) && fallbacks.length > 0
    ? `, then ${fallbacks.map(target).join(', then ')}`
    : '';
}

export function failure(error: unknown): string {
  const { code, message } = inner(error);
  return `${word(message).replace(/\.$/, '')} (${word(code)})`;
}

export function tokens({ input_tokens, output_tokens }: Data): string {
  if (typeof output_tokens !== 'number') return '';
  const before = typeof input_tokens === 'number' ? `${input_tokens} tokens in, ` : '';
  return `; ${before}${output_tokens} tokens out`;
}

export function forcedWords(forced: unknown): string {
  return forced === true
    ? '; its work did not stop in time and was abandoned'
    : '; its work has stopped';
}

export function seconds(ms: unknown): string {
  return typeof ms === 'number' ? `${Math.round(ms / 100) / 10} s` : 'some time';
}

export function inner(value: unknown): Data {
  return typeof value === 'object' && value !== null ? (value as Data) : {};
}

export function word(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '?';
}
