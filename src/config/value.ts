import { isAbsolute } from 'node:path';
import type { Price } from '../contract/events.ts';

/** Readers of single values. They return undefined for a malformed value. */

export function readWhole(value: unknown, min: number, max: number): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    ? value
    : undefined;
}

/** Text without control characters, or space around it. */
export function readName(value: unknown): string | undefined {
  return typeof value === 'string' && /^[^\p{Cc}]+$/u.test(value) && value.trim() === value
    ? value
    : undefined;
}

/**
 * The form that browsers send: lower case, no path. Extensions and editors have their own
 * schemes.
 */
export function readOrigin(value: unknown): string | undefined {
  if (
    typeof value !== 'string' ||
    !/^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+\/?$/i.test(value) ||
    !URL.canParse(value)
  )
    return undefined;
  const { origin } = new URL(value);
  return origin === 'null' ? value.replace(/\/$/, '') : origin;
}

/** A name of this machine in lower case, such as `name`, `name:8080`, `*.name` or `[::1]`. */
export function readHost(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  return /^((\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(:\d{1,5})?$/i.test(value)
    ? value.toLowerCase()
    : undefined;
}

/** A reader of lists whose entries are all read by `read`. */
export function listOf<T>(read: (value: unknown) => T | undefined) {
  return (value: unknown): T[] | undefined => {
    const entries = Array.isArray(value) ? value.map(read) : [undefined];
    return entries.every((entry) => entry !== undefined) ? entries : undefined;
  };
}

/** The entries of a text, between commas. */
export function listText(text: string): string[] {
  return text.split(',').flatMap((part) => part.trim() || []);
}

/** Calls `fail` with the mistake. It never repeats the value, which may have a secret. */
export function readBaseUrl(value: unknown, fail: (what: string) => never): string {
  if (value === undefined) return fail('base_url is missing; it is an http or https address');
  if (typeof value !== 'string' || !URL.canParse(value))
    return fail('base_url must be an http or https address');
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    return fail('base_url must be an http or https address');
  if (url.username !== '' || url.password !== '')
    return fail('base_url must not hold credentials; name their place with key');
  if (url.search !== '' || url.hash !== '')
    return fail('base_url must not have a query or a fragment');
  return url.href.replace(/\/+$/, '');
}

/** Digits as a number. Other text stays, and is refused later. */
export function wholeText(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

export function nullText<T>(text: T): T | null {
  return text === 'null' ? null : text;
}

export function readSwitch(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

export function switchText(text: string): unknown {
  return ({ true: true, '1': true, false: false, '0': false } as Record<string, boolean>)[text];
}

/** Names by name. */
export function readNames(value: unknown): Record<string, string> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  if (!entries.flat().every((each) => readName(each) !== undefined)) return undefined;
  return { ...value } as Record<string, string>;
}

/** Chat templates that svc has: how public models write turns. */
export const TEMPLATE_FORMS = ['chatml', 'llama3', 'gemma', 'mistral', 'phi', 'granite'] as const;
export type TemplateForm = (typeof TEMPLATE_FORMS)[number];

/** By name one of these, or the absolute path of another one. */
export function readTemplates(value: unknown): Record<string, string> | undefined {
  const read = readNames(value);
  const isTemplate = (each: string) => TEMPLATE_FORMS.includes(each as never) || isAbsolute(each);
  return read !== undefined && Object.values(read).every(isTemplate) ? read : undefined;
}

/** Absolute paths by name. */
export function readAdapters(value: unknown): Record<string, readonly string[]> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const isList = (each: unknown) =>
    Array.isArray(each) &&
    each.length <= ADAPTERS_MAX &&
    each.every((path) => typeof path === 'string' && isAbsolute(path));
  return Object.values(value).every(isList) ? { ...value } : undefined;
}

/** Of one model. Each is in memory with it. */
const ADAPTERS_MAX = 16;

/** Milliseconds by name. */
export function readDurations(value: unknown): Record<string, number> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const isDuration = (each: unknown) => readWhole(each, 0, DURATION_MAX_MS) !== undefined;
  return Object.values(value).every(isDuration)
    ? ({ ...value } as Record<string, number>)
    : undefined;
}

const DURATION_MAX_MS = 1e15;

export function readPrices(value: unknown): Record<string, Price> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const isAmount = (each: unknown) =>
    typeof each === 'number' && Number.isFinite(each) && each >= 0;
  const isPrice = (each: unknown) => {
    if (typeof each !== 'object' || each === null) return false;
    const {
      input,
      output,
      cached_input = input,
      cache_write = input,
      ...rest
    } = each as Record<string, unknown>;
    const amounts = [input, output, cached_input, cache_write];
    return amounts.every(isAmount) && Object.keys(rest).length === 0;
  };
  if (!Object.values(value).every(isPrice)) return undefined;
  const entries = Object.entries(value as Record<string, Price>);
  return Object.fromEntries(entries.map(([target, price]) => [target, { ...price }]));
}

/** Names by name, or lists of them. */
export function readAliases(
  value: unknown,
): Record<string, string | readonly string[]> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const isTarget = (each: unknown) =>
    readName(each) !== undefined ||
    (Array.isArray(each) && each.length > 0 && each.every((name) => readName(name) !== undefined));
  const holds = Object.entries(value).every(
    ([name, target]) => readName(name) !== undefined && isTarget(target),
  );
  return holds ? { ...(value as Record<string, string | readonly string[]>) } : undefined;
}

/** Text that is JSON as its value. Other text stays, and is refused later. */
export function jsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
