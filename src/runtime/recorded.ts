import type { EventStore } from '../store/store.ts';

const PAGE = 256;

/** The ids of the tokens that the log holds of a run's present answer, in order: what its provider goes on from. */
export async function recordedTokens(store: EventStore, run_id: string): Promise<number[]> {
  let token_ids: number[] = [];
  for (let version = 1; ; ) {
    const page = await store.readStream(run_id, version, PAGE);
    if (page.length === 0) return token_ids;
    for (const { type, data } of page) {
      if (type === 'run.started' && data.resumes !== true) token_ids = [];
      if (type === 'run.output_appended') token_ids.push(...(data.token_ids as number[]));
    }
    version += page.length;
  }
}
