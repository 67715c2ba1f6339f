import type { RunContext } from '../../../machines/run-context.ts';
import { pagesOf } from '../../kernel/pages.ts';
import type { Resume } from '../../providers/port.ts';
import type { EventStore } from '../../store/port.ts';

/** What the log has of a run's present answer. */
export async function recordedAnswer(
  store: EventStore,
  run_id: string,
  { output, parts, threads, batched, model_file, prompt_parts }: RunContext,
): Promise<Resume> {
  const token_ids = await recordedTokens(store, run_id);
  return {
    ...{ text: output, parts, token_ids, threads, batched, model_file },
    ...(prompt_parts ? { prompt_parts } : {}),
  };
}

/** The recorded tokens, in order. The provider continues from them. */
async function recordedTokens(store: EventStore, run_id: string): Promise<number[]> {
  let token_ids: number[] = [];
  for await (const page of pagesOf(store, run_id)) {
    for (const { type, data } of page) {
      if (type === 'run.started' && data.resumes !== true) token_ids = [];
      if (type === 'run.output_appended') token_ids.push(...(data.token_ids as number[]));
    }
  }
  return token_ids;
}
