import { isoTime } from '../kernel/clock.ts';
import type { EventRecord, StoredEvent } from './contract.ts';

export function toRecord(stored: StoredEvent): EventRecord {
  const { seq, stream, version, type, boot_id, data } = stored;
  return { seq, stream, version, type, at: isoTime(stored.at), boot_id, data };
}
