import * as v from 'valibot';
import { ITEM, type Opaque } from '../../../machines/messages.ts';
import { wrong } from '../../contract/check.ts';
import { opaque as schema } from '../../contract/messages.ts';
import { parseForeignJson } from '../../json.ts';

/**
 * What is opaque as one text that a client sends back, with its author. The field in which it
 * travels has another form than that of the author, or none for an author.
 */

const BEGIN = 'svc-opaque-1:';

export function sealed(opaque: Opaque): string {
  return BEGIN + Buffer.from(JSON.stringify(opaque)).toString('base64url');
}

/** Null: svc did not seal it. Throws invalid_request for one that was changed. */
export function unsealed(text: string, param: string): Opaque | null {
  if (!text.startsWith(BEGIN)) return null;
  const json = Buffer.from(text.slice(BEGIN.length), 'base64url').toString();
  const { success, output } = v.safeParse(schema, parseForeignJson(json));
  if (success) return output;
  throw wrong(param, `${param} is not as svc sent it.`);
}

/** An item of reasoning that a client has from the API itself. */
export function asItem(item: Readonly<Record<string, unknown>>): Opaque {
  return { form: ITEM, data: JSON.stringify(item) };
}
