import { shortMessages } from '../src/contract/messages/parts.ts';
import { SCHEMA_VERSION } from './events.ts';

type Data = Record<string, unknown>;

/**
 * Converts the data of a stored event to the present schema. The store does it for each event that
 * it reads, so nothing else knows older shapes.
 *
 * Schema 1: a run had a prompt and a system text. Since schema 2 it has messages.
 */
export function upcast(schema: number, type: string, data: Data): Data {
  if (schema >= SCHEMA_VERSION || type !== 'run.accepted') return data;
  const { request } = data;
  if (typeof request !== 'object' || request === null || 'messages' in request) return data;
  const { prompt, system, ...rest } = request as Data;
  // A file from elsewhere may have anything. Its reader refuses what is not converted.
  if (typeof prompt !== 'string') return data;
  const messages =
    data.content === 'omitted' && prompt === ''
      ? []
      : shortMessages(prompt, typeof system === 'string' ? system : null);
  return { ...data, request: { ...rest, messages } };
}
