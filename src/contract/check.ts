import * as v from 'valibot';
import { SvcError } from '../errors.ts';
import type { Leniency } from './vocabulary.ts';

/** The fields that have a value. A null field counts as not given. */
export type WithoutNull<T> = { [K in keyof T]: Exclude<T[K], null | undefined> };

/** Checks a value from outside. Throws invalid_request with the name of the field as `param`. */
export function check<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  leniency?: Leniency,
): v.InferOutput<S> {
  if (Array.isArray(value)) throw new SvcError('invalid_request', 'A JSON object is expected.');
  // `safeParse` would drop the leniency, which is not an option of valibot.
  const config = { ...v.getGlobalConfig(), ...(leniency === undefined ? {} : { leniency }) };
  const { issues: found, value: output } = schema['~run']({ value }, config);
  if (found === undefined) return output as v.InferOutput<S>;
  const issues = found.map(findInnermostIssue);
  throw refusal(issues.find(isUnknownField) ?? issues[0] ?? found[0]);
}

/** A checked value, and the fields that its schema does not have: `messages.0.name`. */
export interface Known<T> {
  value: T;
  ignored: readonly string[];
}

/**
 * Checks a value, and leaves out the fields that the schema does not have. `blanks`: an empty text
 * counts as not given. Throws invalid_request as `check` does.
 */
export function checkKnown<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  { blanks }: { blanks: boolean },
): Known<v.InferOutput<S>> {
  const leniency: Leniency = { ignored: new Map(), blanks };
  const output = check(schema, value, leniency);
  return { value: output, ignored: pathsOf(value, leniency.ignored) };
}

/** The paths of the fields. It names the first ones, since a client chooses how many there are. */
function pathsOf(value: unknown, fields: Leniency['ignored']): string[] {
  const paths: string[] = [];
  const waiting: [inner: unknown, path: string][] = fields.size === 0 ? [] : [[value, '']];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [inner, path] = next;
    if (typeof inner !== 'object' || inner === null) continue;
    const ignored = fields.get(inner) ?? [];
    for (const key of ignored) paths.push(`${path}${key}`);
    if (paths.length > PATHS_MAX) return [...paths.slice(0, PATHS_MAX), '…'];
    for (const [key, below] of Object.entries(inner).reverse())
      if (!ignored.includes(key)) waiting.push([below, `${path}${key}.`]);
  }
  return paths;
}
const PATHS_MAX = 20;

/** The same, without the fields that are null. */
export function checkWithoutNull<S extends v.GenericSchema<unknown, object>>(
  schema: S,
  value: unknown,
): WithoutNull<v.InferOutput<S>> {
  return withoutNull(check(schema, value));
}

/** The fields that have a value. */
export function withoutNull<T extends object>(fields: T): WithoutNull<T> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, field]) => (field ?? null) !== null),
  ) as WithoutNull<T>;
}

export function invalidRequest(param: string, message: string): SvcError {
  return new SvcError('invalid_request', message, { param: param.slice(0, 80) });
}

export function tooManyValues(most: number): SvcError {
  return new SvcError('body_too_large', `The request has more than ${most} values.`, {
    hint: 'Send fewer items, in several requests.',
  });
}

/**
 * What is wrong inside a value that may have several forms: the issue of the form that fits
 * furthest. Otherwise a mistake deep in a message would be reported for its whole content.
 */
function findInnermostIssue(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown> {
  if (issue.type !== 'union' || issue.issues === undefined) return issue;
  const inner = issue.issues.map(findInnermostIssue).sort((a, b) => rank(b) - rank(a))[0];
  if (inner?.path === undefined) return issue;
  return { ...inner, path: [...(issue.path ?? []), ...inner.path] } as v.BaseIssue<unknown>;
}

/** Deep before shallow, and an unknown field before a missing one. */
function rank(issue: v.BaseIssue<unknown>): number {
  return 2 * (issue.path?.length ?? 0) + (isUnknownField(issue) ? 1 : 0);
}

function refusal(issue: v.BaseIssue<unknown>): SvcError {
  const param = issue.path?.map(({ key }) => String(key)).join('.');
  if (param === undefined) return new SvcError('invalid_request', issue.message);
  if (!isUnknownField(issue)) return invalidRequest(param, `${param} ${issue.message}`);
  const name = param.slice(0, 80);
  return new SvcError('invalid_request', `${JSON.stringify(name)} ${issue.message}`, {
    param: name,
    details: { unknown: 'field' },
  });
}

function isUnknownField({ type, expected }: v.BaseIssue<unknown>): boolean {
  return type === 'strict_object' && expected === 'never';
}

/** Most levels of a JSON schema, and most values in all schemas of one request. */
const LEVELS_MAX = 64;
const VALUES_MAX = 20_000;

/**
 * Bounds values whose form a client chooses, each with the name of its parameter. A deep value
 * would exceed the stack of its readers, and many values would take long to check. Throws
 * invalid_request.
 */
export function checkNesting(values: Iterable<readonly [param: string, value: unknown]>): void {
  let count = 0;
  for (const [param, value] of values) {
    const waiting: [inner: unknown, level: number][] = [[value, 1]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [inner, level] = next;
      count += 1;
      if (count > VALUES_MAX)
        throw invalidRequest(param, `${param} exceeds ${VALUES_MAX} values, with those before it.`);
      if (typeof inner !== 'object' || inner === null || ArrayBuffer.isView(inner)) continue;
      if (level > LEVELS_MAX)
        throw invalidRequest(param, `${param} has more than ${LEVELS_MAX} levels.`);
      for (const each of Object.values(inner)) waiting.push([each, level + 1]);
    }
  }
}

/** NUL and half a surrogate pair cannot travel as UTF-8 text. */
export function checkText(param: string, value: string): void {
  if (!value.includes('\0') && value.isWellFormed()) return;
  throw new SvcError('prompt_not_text', `${param} holds NUL or is not well-formed text.`, {
    param,
  });
}
