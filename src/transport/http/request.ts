import { check, checkKnown } from '../../contract/check.ts';
import { boundConversation } from '../../contract/inputs.ts';
import { readQuery } from '../../contract/operations/query.ts';
import { readJson } from './body.ts';
import type { Context, ReadOptions, Route } from './route.ts';

/** Reads requests by the schemas of their route. */

/** The parameters. Throws invalid_request for one that the route does not have. */
export function queryOf({ query }: Route, req: Context['req'], limits: Context['limits']): unknown {
  if (query === undefined) return {};
  return readQuery(req.originalUrl, typeof query === 'function' ? query(limits) : query);
}

/**
 * Reads and checks the body when the handler asks for it. `ignored` hears of the fields that are
 * left out. Throws what readJson and check throw.
 */
export function bodyReader(
  { body, asksModel, unknownFields, blanks }: Route,
  { req, res, limits, ended }: Pick<Context, 'req' | 'res' | 'limits' | 'ended'>,
  { strict, ignored }: { strict: boolean; ignored(fields: readonly string[]): void },
): (options?: ReadOptions) => Promise<unknown> {
  return async ({
    bytes = limits.body_bytes,
    complete = (value: unknown) => value,
    within_ms,
    values = limits.request_values,
  } = {}) => {
    const options = { ended, values, ...(within_ms === undefined ? {} : { within_ms }) };
    const value = complete(await readJson(req, res, bytes, options));
    if (asksModel) boundConversation(value, limits);
    if (body === undefined) return value;
    if (unknownFields === undefined || (strict && unknownFields === 'may refuse'))
      return check(body, value);
    const known = checkKnown(body, value, { blanks: blanks === true });
    if (known.ignored.length > 0) ignored(known.ignored);
    return known.value;
  };
}
