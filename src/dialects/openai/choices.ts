import { LOCAL } from '../../../machines/runs-to-start.ts';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import type { Usage } from '../../contract/events.ts';
import { options } from '../../contract/options.ts';
import { sendLarge } from '../../transport/http/large.ts';
import type { Context } from '../../transport/http/route.ts';
import { type Answer, collectAnswer, type Rename, streamAnswer } from '../answer.ts';
import type { AnswerEnd } from '../pieces.ts';
import { type ApiRequest, startFor } from '../start.ts';
import type { PlacedPiece } from '../steady.ts';
import { CHUNKS, DONE, frame, sumOf, usageOf } from './parts.ts';

/** The runs of a request for `n` choices: each run has one answer. */
export interface Choices {
  count: number;
  /** Of one input. */
  each: number;
  first: RunRecord;
  /**
   * All runs, in order. Each run is answered before the next one is requested. Null: there is only
   * the first run.
   */
  runs: AsyncIterable<RunRecord> | null;
}

/**
 * Starts the runs of a request: `n` for each input.
 *
 * 1. Those of the local engine follow each other, and reuse the prompt that the first one computed.
 *    Other providers answer several at once.
 * 2. With a seed, each choice of an input has the next one.
 * 3. A request that fails cancels the runs that it has not read. One whose client leaves cancels
 *    all, as `startFor` says.
 */
export async function startChoices(
  context: Context,
  n: number | null | undefined,
  inputs: readonly [RunInput, ...RunInput[]],
  asked: Pick<ApiRequest, 'api' | 'narrowings' | 'streams'>,
): Promise<Choices> {
  const each = n ?? 1;
  const count = inputs.length * each;
  const start = (choice: number) => {
    const input = inputs[Math.floor(choice / each)] ?? inputs[0];
    const seed = seedOf(input, choice % each);
    return startFor(context, { ...input, seed }, { ...asked, choice, choices: count });
  };
  const first = await start(0);
  const runs = count === 1 ? null : startInOrder(context, first, count, start);
  return { count, each, first, runs };
}

function seedOf({ seed }: RunInput, choice: number): number | null {
  return seed == null ? null : (seed + choice) % (options.seed.max + 1);
}

async function* startInOrder(
  { runtime, res, closing }: Context,
  first: RunRecord,
  n: number,
  start: (choice: number) => Promise<RunRecord>,
): AsyncGenerator<RunRecord, void> {
  const runs = [first];
  let read = 0;
  try {
    for (; read < n; read += 1) {
      const ahead = first.provider === LOCAL ? 0 : Math.min(n, read + AT_ONCE);
      while (runs.length < ahead) runs.push(await start(runs.length));
      yield runs[read] ?? (await start(read));
    }
  } finally {
    if (!res.destroyed && !closing.aborted)
      for (const { id } of runs.slice(read)) await runtime.runs.cancel(id, 'http').catch(() => {});
  }
}

/** Runs of one request that a provider answers at one time. */
const AT_ONCE = 8;

/** Sends all answers together, in the form that `describe` gives them. */
export async function sendChoices(
  context: Context,
  { first, runs }: Choices,
  describe: (answers: readonly [Answer, ...Answer[]]) => object,
  rename?: Rename,
): Promise<void> {
  const answers: Answer[] = [];
  for await (const run of runs ?? [first])
    answers.push(await collectAnswer(context, run, { rename }));
  await sendLarge(context, async () => describe(answers as [Answer, ...Answer[]]));
}

/** How the pieces of one choice are sent. An empty text sends nothing. */
export interface ChoiceForm {
  /** What every chunk begins with. */
  readonly head: object;
  next(piece: PlacedPiece): string;
  end(end: AnswerEnd): string;
}

/** Streams the answers one after the other. A client that wants the usage has it after the last. */
export async function streamChoices(
  context: Context,
  { count, each, first, runs }: Choices,
  stream: { include_usage?: boolean | null | undefined } | null | undefined,
  formOf: (run: RunRecord, index: number) => ChoiceForm,
  rename: Rename = (thrown) => thrown,
): Promise<void> {
  const usages: Usage[] = [];
  const options = { ...CHUNKS, runs, rename };
  await streamAnswer(context, first, options, async (pieces, { write }, present) => {
    let form: ChoiceForm | null = null;
    for await (const piece of pieces) {
      const { provider, model } = present();
      form ??= formOf({ ...first, provider, model }, usages.length);
      let text = piece.type === 'end' ? form.end(piece) : form.next(piece);
      if (piece.type === 'end' && usages.push(piece.usage) === count) {
        const usage = stream?.include_usage === true ? usageOfAll(usages, each) : undefined;
        if (usage !== undefined) text += frame({ ...form.head, choices: [], usage });
        text += DONE;
      }
      if (text !== '') await write(text);
    }
  });
}

/**
 * As OpenAI counts choices: the prompt of each input once, and the tokens of all. `each`: answers
 * to one input. Undefined: it is unknown.
 */
export function usageOfAll(usages: readonly Usage[], each: number): object | undefined {
  const prompts = sumOf(usages.filter((_, index) => index % each === 0));
  const all = sumOf(usages);
  if (prompts === null || all === null) return undefined;
  const { output_tokens, reasoning_tokens = 0 } = all;
  return usageOf({ ...prompts, output_tokens, reasoning_tokens });
}
