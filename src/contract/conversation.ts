import { SvcError } from '../errors.ts';
import { asRecord } from '../json.ts';
import type { Limits } from '../limits.ts';

/**
 * Bounds what a request asks a model, by the names that every API has for it. This is done before
 * the check of each item, which takes far longer, and reports each mistake.
 */
export type ConversationLimits = Pick<Limits, 'run_messages' | 'run_parts' | 'run_tools'>;

const LISTS = [
  ['messages', 'messages', 'run_messages'],
  ['input', 'items', 'run_messages'],
  ['tools', 'tools', 'run_tools'],
] as const;
/** Where messages have their parts. */
const SAID = ['messages', 'input', 'system'] as const;

/** Throws invalid_request with the name of the list as `param`. */
export function boundConversation(request: unknown, limits: ConversationLimits): void {
  const fields = asRecord(request);
  for (const [param, noun, limit] of LISTS) {
    const list = fields[param];
    if (Array.isArray(list) && list.length > limits[limit])
      throw tooMany(param, `${list.length} ${noun}`, limit, limits);
  }
  let parts = 0;
  for (const param of SAID)
    eachListBelow(fields[param], ({ length }) => {
      parts += length;
      if (parts > limits.run_parts)
        throw tooMany(param, `more than ${limits.run_parts} parts`, 'run_parts', limits);
    });
}

/** Visits the lists inside the items of a list: parts, tool calls, images. */
function eachListBelow(value: unknown, visit: (list: readonly unknown[]) => void): void {
  const waiting: unknown[] = Array.isArray(value) ? [...value] : [];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== 'object' || next === null || ArrayBuffer.isView(next)) continue;
    if (Array.isArray(next)) visit(next);
    for (const inner of Object.values(next)) if (typeof inner === 'object') waiting.push(inner);
  }
}

function tooMany(
  param: string,
  what: string,
  limit: keyof ConversationLimits,
  limits: ConversationLimits,
): SvcError {
  return new SvcError(
    'invalid_request',
    `${param} has ${what}; at most ${limits[limit]} are taken.`,
    { param, hint: `Send fewer, or raise the limit ${limit}.` },
  );
}
