/** Forms of single values. Each reader gives undefined for a value that is not of its form. */

export function readWhole(value: unknown, min: number, max: number): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    ? value
    : undefined;
}

/** Text without control characters, and without space around it. */
export function readName(value: unknown): string | undefined {
  return typeof value === 'string' && /^[^\p{Cc}]+$/u.test(value) && value.trim() === value
    ? value
    : undefined;
}

/** In the form that browsers send: lower case, no path. Those of extensions and editors have schemes of their own. */
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

/** Throws by `fail`, which is told what is wrong. The value is never repeated: it may hold what must not be shown. */
export function readBaseUrl(value: unknown, fail: (what: string) => never): string {
  if (value === undefined) return fail('base_url is missing; it is an http or https address');
  if (typeof value !== 'string' || !URL.canParse(value))
    return fail('base_url must be an http or https address');
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    return fail('base_url must be an http or https address');
  if (url.username !== '' || url.password !== '')
    return fail('base_url must not hold credentials; name their variable with key_env');
  if (url.search !== '' || url.hash !== '')
    return fail('base_url must not have a query or a fragment');
  return url.href.replace(/\/+$/, '');
}

/** Digits as a number; any other text as it is, to be refused. */
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
