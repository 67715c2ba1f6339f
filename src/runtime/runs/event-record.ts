import { isoTime } from '../../async/clock.ts';
import type { EventRecord } from '../../contract/contract.ts';
import type { MediaPart } from '../../contract/messages/parts.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';

export function toRecord(stored: StoredEvent): EventRecord {
  const { seq, stream, version, type, at, boot_id } = stored;
  return { seq, stream, version, type, at: isoTime(at), boot_id, data: shownData(stored) };
}

/**
 * The data of an event as users see it. Files of results have their size, since a run with pictures
 * would be hundreds of megabytes. The export of a run has the files.
 */
export function shownData({ data }: Pick<StoredEvent, 'data'>): StoredEvent['data'] {
  if (data.media === undefined) return data;
  return { ...data, media: (data.media as readonly MediaPart[]).map(fileRecord) };
}

/** A file without its data. */
export function fileRecord({ type, media_type, data }: MediaPart) {
  return { type, media_type, size_bytes: Buffer.byteLength(data, 'base64') };
}
