import * as v from 'valibot';
import { invalidRequest } from '../contract/check.ts';
import { opaque as schema } from '../contract/messages/messages.ts';
import {
  DETAILS,
  ITEM,
  type MessagePart,
  type Opaque,
  type OutputPart,
  opaqueIn,
  type ReasoningPart,
  THOUGHT,
  type ToolCallPart,
} from '../contract/messages/parts.ts';
import { object, text } from '../contract/vocabulary.ts';
import { parseForeignJson } from '../json.ts';

/**
 * Opaque data as one text that a client sends back, with its author. The field that carries it has
 * another form than the author's API, or no place for an author.
 */

const BEGIN = 'svc-opaque-1:';
const sealedSchema = object({ ...schema.entries, call: v.exactOptional(text) });

/** Sealed data. `call`: the id of the call that they belong to, if they travel beside one. */
export interface Sealed extends Opaque {
  readonly call?: string;
}

export function sealOpaque(opaque: Sealed): string {
  return BEGIN + Buffer.from(JSON.stringify(opaque)).toString('base64url');
}

/** Opaque data of a call, to travel beside it: most APIs have no field for them in the call. */
export function sealBeside({ id, opaque }: ToolCallPart): string | null {
  return opaque === undefined ? null : sealOpaque({ ...opaque, call: id });
}

/** Attaches data that travelled beside calls to the calls that follow. */
export class Besides {
  private readonly ofCalls = new Map<string, Opaque>();

  /** The part as it was. Null: it was not a part, and belongs to a call. */
  take(part: MessagePart): MessagePart | null {
    const { call, ...opaque } = (opaqueIn(part) ?? {}) as Sealed;
    if (part.type === 'reasoning' && call !== undefined) {
      this.ofCalls.set(call, opaque);
      return null;
    }
    const own = part.type === 'tool_call' ? this.ofCalls.get(part.id) : undefined;
    return own === undefined ? part : ({ ...part, opaque: own } as MessagePart);
  }
}

/** Null: svc did not seal it. Throws invalid_request for a changed text. */
export function unsealOpaque(written: string, param: string): Sealed | null {
  if (!written.startsWith(BEGIN)) return null;
  const json = Buffer.from(written.slice(BEGIN.length), 'base64url').toString();
  const { success, output } = v.safeParse(sealedSchema, parseForeignJson(json));
  if (success) return output;
  throw invalidRequest(param, `${param} is not as svc sent it.`);
}

/** Thoughts as OpenRouter's details. Null: they have nothing, or a field with its meaning. */
export function detailOf(part: OutputPart): object | null {
  if (part.type !== 'reasoning' || part.opaque === undefined) return null;
  const { text, opaque } = part;
  if (opaque.form === DETAILS || opaque.form === THOUGHT) return null;
  return text === ''
    ? { type: 'reasoning.encrypted', data: sealOpaque(opaque) }
    : { type: 'reasoning.text', text, signature: sealOpaque(opaque) };
}

/** The thoughts of such a detail. Null: svc did not seal it. Throws invalid_request. */
export function thoughtIn(
  { text: said, signature, data }: Readonly<Record<string, unknown>>,
  param: string,
): ReasoningPart | null {
  const opaque = unsealOpaque(String(signature ?? data), param);
  return opaque && { type: 'reasoning', text: typeof said === 'string' ? said : '', opaque };
}

/** An item of reasoning that a client has from the API itself. */
export function asItem(item: Readonly<Record<string, unknown>>): Opaque {
  return { form: ITEM, data: JSON.stringify(item) };
}
