import type { EventRecord } from '../../src/contract/contract.ts';
import type { EventSlice } from '../../src/kernel/event-pages.ts';
import { toRecord } from '../../src/runtime/runs/event-record.ts';
import type { EventData } from '../../src/transport/stream/event-forms.ts';

/** The events of a stream, as clients see them. */
export async function* eventsOf(
  slices: AsyncIterable<EventSlice<EventData>>,
): AsyncGenerator<EventRecord> {
  for await (const { page, events } of slices)
    for (const event of events) yield toRecord(page.body.storedOf(event));
}
