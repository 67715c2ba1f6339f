import type { PullInput } from '../../models/port.ts';
import { readFields, readName, wrong } from '../fields.ts';

/** What was sent, as a request to fetch a model. Throws invalid_request, with the field as its param. */
export function parsePullInput(value: unknown): PullInput {
  const fields = readFields(value, ['reference', 'name', 'sha256']);
  const reference = readName(fields, 'reference', 4096);
  if (reference === null) throw wrong('reference', 'reference must say which model is meant.');
  return {
    reference,
    name: readName(fields, 'name', 255),
    sha256: readName(fields, 'sha256', 128),
  };
}
