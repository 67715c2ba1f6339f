import { asRecord, isRecord, parseForeignJson } from '../../json.ts';
import { DETAILS, type MessagePart, type Opaque, opaqueIn, THOUGHT } from './parts.ts';

/**
 * How chat completions write what a provider must get back: as a server sends it to svc, and svc to
 * its clients, and back.
 */

/** The opaque data in a text of this form. Undefined: it has none. */
export function asOpaque(form: string, data: unknown): Opaque | undefined {
  return typeof data === 'string' && data !== '' ? { form, data } : undefined;
}

/** The field `extra_content` of a message or a call. */
export function withExtra(opaque: Opaque | undefined): { extra_content?: object } {
  return opaque?.form === THOUGHT
    ? { extra_content: { google: { thought_signature: opaque.data } } }
    : {};
}

/** The opaque data in such a field. */
export function opaqueInExtra(extra_content: unknown): Opaque | undefined {
  return asOpaque(THOUGHT, asRecord(asRecord(extra_content).google).thought_signature);
}

/** The fields of a message that has these parts. Those of its calls are their own. */
export function withOpaque(
  parts: readonly MessagePart[],
): ReturnType<typeof withExtra> & { reasoning_details?: object[] } {
  const all = parts.flatMap((part) => (part.type === 'tool_call' ? [] : (opaqueIn(part) ?? [])));
  const details = all.flatMap(({ form, data }) => {
    const list = form === DETAILS ? parseForeignJson(data) : [];
    return Array.isArray(list) ? list.filter(isRecord) : [];
  });
  return {
    ...(details.length === 0 ? {} : { reasoning_details: details }),
    ...withExtra(all.findLast(({ form }) => form === THOUGHT)),
  };
}
