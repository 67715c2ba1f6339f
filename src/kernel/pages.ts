import type { EventStore, StoredEvent } from './store/port.ts';

const PAGE = 1000;

/** The events of one stream from a version on, page by page. */
export async function* pagesOf(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  from_version = 1,
): AsyncIterable<StoredEvent[]> {
  for (let version = from_version; ; ) {
    const page = await store.readStream(stream, version, PAGE);
    if (page.length === 0) return;
    yield page;
    version = (page.at(-1)?.version ?? version) + 1;
  }
}

/** The events of one stream, one by one. */
export async function* streamOf(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
): AsyncIterable<StoredEvent> {
  for await (const page of pagesOf(store, stream)) yield* page;
}
