import { wrong } from './check.ts';

/** Most levels of a JSON schema in a request, and most values in it. */
const LEVELS_MAX = 64;
const VALUES_MAX = 20_000;

/**
 * Bounds a value whose form a client chooses, before anything walks it by recursion: a deep one
 * would exceed the stack. Throws invalid_request.
 */
export function checkNesting(value: unknown, param: string): void {
  const waiting: [value: unknown, level: number][] = [[value, 1]];
  let values = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [inner, level] = next;
    values += 1;
    if (values > VALUES_MAX) throw wrong(param, `${param} has more than ${VALUES_MAX} values.`);
    if (typeof inner !== 'object' || inner === null) continue;
    if (level > LEVELS_MAX) throw wrong(param, `${param} has more than ${LEVELS_MAX} levels.`);
    for (const each of Object.values(inner)) waiting.push([each, level + 1]);
  }
}
