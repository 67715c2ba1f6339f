import type { EventRecord, EventSlice } from '../../src/contract/contract.ts';

/** The events of a stream, parsed from the JSON that clients get. */
export async function* eventsOf(slices: AsyncIterable<EventSlice>): AsyncGenerator<EventRecord> {
  for await (const {
    page: { frames },
    events,
  } of slices)
    for (const event of events) yield JSON.parse(frames.json(event).toString()) as EventRecord;
}
