import { LOCAL } from '../../../machines/runs-to-start.ts';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import type { Usage } from '../../contract/events.ts';
import { options } from '../../contract/options.ts';
import { type Answer, collectAnswer, type Rename, streamAnswer } from '../dialect/answer.ts';
import type { AnswerEnd } from '../dialect/pieces.ts';
import { type ApiRequest, startFor } from '../dialect/start.ts';
import type { PlacedPiece } from '../dialect/steady.ts';
import { sendLarge } from '../http/large.ts';
import type { Context } from '../http/route.ts';
import { CHUNKS, DONE, frame, usageOf } from './parts.ts';

/** The runs of a request for `n` choices: each run has one answer. */
export interface Choices {
  count: number;
  first: RunRecord;
  /**
   * All runs, in order. Each is answered before the next one is asked for. Null: the first one is
   * the only one.
   */
  runs: AsyncIterable<RunRecord> | null;
}

/**
 * Starts the runs of a request.
 *
 * 1. Those of the local engine follow each other, and reuse the prompt that the first one computed.
 *    Other providers answer all at once.
 * 2. With a seed, each choice has the next one.
 * 3. A request that fails cancels the runs that it has not read. One whose client leaves cancels
 *    all, as `startFor` says.
 */
export async function startChoices(
  context: Context,
  n: number | null | undefined,
  input: RunInput,
  asked: Pick<ApiRequest, 'api' | 'narrowings'>,
): Promise<Choices> {
  const count = n ?? 1;
  const start = (choice: number) =>
    startFor(
      context,
      { ...input, seed: seedOf(input, choice) },
      { ...asked, choice, choices: count },
    );
  const first = await start(0);
  return { count, first, runs: count === 1 ? null : inOrder(context, first, count, start) };
}

function seedOf({ seed }: RunInput, choice: number): number | null {
  return seed == null ? null : (seed + choice) % (options.seed.max + 1);
}

async function* inOrder(
  { runtime, res, closing }: Context,
  first: RunRecord,
  n: number,
  start: (choice: number) => Promise<RunRecord>,
): AsyncGenerator<RunRecord, void> {
  const runs = [first];
  let read = 0;
  try {
    while (first.provider !== LOCAL && runs.length < n) runs.push(await start(runs.length));
    for (; read < n; read += 1) yield runs[read] ?? (await start(read));
  } finally {
    if (!res.destroyed && !closing.aborted)
      for (const { id } of runs.slice(read)) await runtime.runs.cancel(id, 'http').catch(() => {});
  }
}

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
  { count, first, runs }: Choices,
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
        const usage = stream?.include_usage === true ? usageOfAll(usages) : undefined;
        if (usage !== undefined) text += frame({ ...form.head, choices: [], usage });
        text += DONE;
      }
      if (text !== '') await write(text);
    }
  });
}

/** As OpenAI counts choices: the prompt once, and the tokens of all. Undefined: it is unknown. */
export function usageOfAll(usages: readonly Usage[]): object | undefined {
  const counts = usages.map(({ output_tokens }) => output_tokens);
  const known = counts.filter((count) => count !== null);
  const thoughts = usages.flatMap(({ reasoning_tokens }) => reasoning_tokens ?? []);
  return usageOf({
    input_tokens: null,
    ...usages[0],
    output_tokens: known.length < counts.length ? null : sumOf(known),
    ...(thoughts.length === 0 ? {} : { reasoning_tokens: sumOf(thoughts) }),
  });
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
