import type { StoredEvent } from '../store/port.ts';
import { isoTime } from './clock.ts';

/** An event as users see it. */
export interface EventRecord {
  seq: number;
  stream: string;
  version: number;
  type: string;
  at: string;
  boot_id: string;
  data: Record<string, unknown>;
}

export function toRecord(event: StoredEvent): EventRecord {
  return {
    seq: event.seq,
    stream: event.stream,
    version: event.version,
    type: event.type,
    at: isoTime(event.at),
    boot_id: event.boot_id,
    data: event.data,
  };
}
