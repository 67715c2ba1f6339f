import { wrong } from './check.ts';

/** Most levels of a JSON schema, and most values in all schemas of one request. */
const LEVELS_MAX = 64;
const VALUES_MAX = 20_000;

/**
 * Bounds values whose form a client chooses, each with the name of its parameter. A deep one would
 * exceed the stack of what walks it, and many values would take long to check. Throws
 * invalid_request.
 */
export function checkNesting(
  values: Iterable<readonly [param: string, value: unknown]>,
  valuesMax = VALUES_MAX,
): void {
  let count = 0;
  for (const [param, value] of values) {
    const waiting: [inner: unknown, level: number][] = [[value, 1]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [inner, level] = next;
      count += 1;
      if (count > valuesMax)
        throw wrong(param, `${param} exceeds ${valuesMax} values, with those before it.`);
      if (typeof inner !== 'object' || inner === null || ArrayBuffer.isView(inner)) continue;
      if (level > LEVELS_MAX) throw wrong(param, `${param} has more than ${LEVELS_MAX} levels.`);
      for (const each of Object.values(inner)) waiting.push([each, level + 1]);
    }
  }
}
