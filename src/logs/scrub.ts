import { readLine } from './filter.ts';

/**
 * The fields that a log line may have: no secrets, no throwing getters, bounded size.
 * Secrets are found by field name, and in texts by their form.
 */
export function toLoggable(fields: object): Record<string, unknown> {
  const plain = copy(fields, 0, { values: VALUES_MAX }) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [RESERVED.has(name) ? `${name}_` : name, value]),
  );
}

/** Hides apparent secrets in a text, or in a line of JSON. */
export function scrub(text: string): string {
  return SECRET_HINT.test(text)
    ? SECRET_FORMS.reduce((rest, [form, shown]) => rest.replace(form, shown), text)
    : text;
}

/** Applies `redact` to the texts of a line, at any depth, except ids and names of errors. */
export function redactLine(line: string, redact: (text: string) => string): string {
  const whole = readLine(line);
  return whole === null
    ? redact(line)
    : JSON.stringify(whole, (name, value) =>
        typeof value === 'string' && !NAMES.has(name) ? redact(value) : value,
      );
}

const NAMES = new Set(['level', 'time', 'boot_id', 'run_id', 'stream', 'code', 'type']);
const HIDDEN = '[hidden]';
const DEPTH_MAX = 6;
const ENTRIES_MAX = 100;
/** Values of one line, at all depths. */
const VALUES_MAX = 1000;

/** Fields that every line has. */
const RESERVED = new Set(['level', 'time', 'boot_id']);
const SECRET_NAME =
  /^(proxy-)?authorization$|^(set-)?cookie$|^key$|passw|secret|(^|[_-])api[_-]?key|(^|[_-])(access|auth|bearer|refresh)?[_-]?token$/i;
const SECRET_HINT = /bearer|x-api-key|[sg]k-|:\/\/[^/]*@|key=|token=/i;
const SECRET_FORMS: [RegExp, string][] = [
  [/\b(Bearer\s+)[\w.~+/=-]{6,}/gi, `$1${HIDDEN}`],
  [/(x-api-key["']?\s*[:=]\s*["']?)[^\s"',]+/gi, `$1${HIDDEN}`],
  [/\b[sg]k-[\w-]{8,}/g, HIDDEN],
  [/(:\/\/)[^/\s"'\\@]+@/g, `$1${HIDDEN}@`],
  [/([?&\s](?:api_?key|key|access_token|token)=)[^&\s"'\\]+/gi, `$1${HIDDEN}`],
];

function copy(value: unknown, depth: number, left: { values: number }): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Error) return describe(value, depth, left);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof URL) return value.href;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth >= DEPTH_MAX || --left.values < 0) return '[more]';
  if (Array.isArray(value))
    return value.slice(0, ENTRIES_MAX).map((item) => copy(item, depth + 1, left));
  const names = Object.keys(value).slice(0, ENTRIES_MAX);
  return Object.fromEntries(
    names.map((name) => [
      name,
      SECRET_NAME.test(name) ? HIDDEN : copy(read(value, name), depth + 1, left),
    ]),
  );
}

/**
 * Copies only the readable parts of an error. Other properties may contain requests, prompts and
 * keys.
 */
function describe(error: Error, depth: number, left: { values: number }): Record<string, unknown> {
  const { code } = error as NodeJS.ErrnoException;
  return {
    type: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    message: error.message,
    ...(typeof error.stack === 'string' ? { stack: error.stack } : {}),
    ...(error.cause === undefined || depth >= DEPTH_MAX
      ? {}
      : { cause: copy(error.cause, depth + 1, left) }),
  };
}

function read(value: object, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return '[unreadable]';
  }
}
