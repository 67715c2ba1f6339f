import type { EventRecord, EventSlice } from '../../src/contract/contract.ts';
import { toRecord } from '../../src/contract/event-record.ts';
import type { EventData } from '../../src/transport/stream/event-forms.ts';

/** The events of a stream, as clients see them. */
export async function* eventsOf(
  slices: AsyncIterable<EventSlice<EventData>>,
): AsyncGenerator<EventRecord> {
  for await (const { page, events } of slices)
    for (const event of events) yield toRecord(page.body.of(event));
}
