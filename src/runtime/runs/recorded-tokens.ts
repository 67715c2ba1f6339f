import { pagesOf } from '../../kernel/pages.ts';
import type { EventStore } from '../../store/port.ts';

/** The recorded tokens of a run's present answer, in order. Its provider continues from them. */
export async function recordedTokens(store: EventStore, run_id: string): Promise<number[]> {
  let token_ids: number[] = [];
  for await (const page of pagesOf(store, run_id)) {
    for (const { type, data } of page) {
      if (type === 'run.started' && data.resumes !== true) token_ids = [];
      if (type === 'run.output_appended') token_ids.push(...(data.token_ids as number[]));
    }
  }
  return token_ids;
}
