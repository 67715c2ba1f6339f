import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type OutputPart as AnswerPart,
  partsAfter,
  type TokenLogprob,
} from '../../../src/contract/messages/parts.ts';
import type { OutputPart, Resume } from '../../../src/ports/providers.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { THINKS } from '../../fixtures/models/templates.ts';
import type { Asking } from '../../helpers/asking.ts';
import { type LocalHarness, makeLocalProvider, runRequest } from '../../helpers/local-provider.ts';
import { makeModels, TOOL_LIST } from '../../helpers/made-models.ts';

/**
 * An answer that was cut off after one of its tokens continues exactly. The engine that continues
 * it did not compute its beginning. Answers have tool calls, reasoning, JSON, stop texts and
 * penalties.
 */

interface Answer {
  text: string;
  parts: readonly AnswerPart[];
  token_ids: number[];
  logprobs: TokenLogprob[];
  finish: OutputPart | null;
}

const none = (): Answer => ({ text: '', parts: [], token_ids: [], logprobs: [], finish: null });

function add(answer: Answer, part: OutputPart): Answer {
  if (part.type === 'finish') {
    // Its times, and how much of the prompt was computed before, are no part of it.
    const { cached_tokens: _, ...usage } = part.usage;
    const { load_ms: __, tokens_per_second: ___, ...finish } = part;
    return { ...answer, finish: { ...finish, usage } };
  }
  return {
    ...answer,
    parts: partsAfter(answer.parts, answer.text, part),
    text: part.kind === undefined ? answer.text + part.text : answer.text,
    token_ids: [...answer.token_ids, ...part.token_ids],
    logprobs: [...answer.logprobs, ...(part.logprobs ?? [])],
  };
}

async function* stream(
  local: LocalHarness,
  request: Asking,
  resume: Resume | null,
): AsyncGenerator<OutputPart> {
  const attempt = { run_id: 'run_cut', attempt: 1, request: runRequest(request), resume };
  yield* local.provider.stream(attempt, new AbortController().signal);
}

/** The answer, and what was delivered of it after each of its parts. */
async function readAll(
  local: LocalHarness,
  request: Asking,
): Promise<{ whole: Answer; delivered: Answer[] }> {
  const delivered = [none()];
  for await (const part of stream(local, request, null))
    delivered.push(add(delivered.at(-1) ?? none(), part));
  return { whole: delivered.at(-1) ?? none(), delivered: delivered.slice(0, -1) };
}

/**
 * Each cut of a short answer. Of a longer one the first and the last, and some of those between,
 * which repeat them.
 */
function cutsOf(length: number): number[] {
  const all = Array.from({ length }, (_, index) => index + 1);
  return all.filter((count) => count <= CUTS_EACH || count > length - 2 || count % 8 === 0);
}

const CUTS_EACH = 12;

async function checkEachCut(request: Asking): Promise<Answer> {
  const { whole, delivered } = await readAll(first, request);
  for (const count of cutsOf(whole.token_ids.length)) {
    const before = delivered.findLast(({ token_ids }) => token_ids.length <= count) ?? none();
    const token_ids = whole.token_ids.slice(0, count);
    let answer: Answer = { ...before, token_ids, logprobs: whole.logprobs.slice(0, count) };
    const resume = {
      text: before.text,
      parts: before.parts,
      token_ids,
      threads: null,
      batched: false,
      model_file: null,
    };
    for await (const part of stream(second, request, resume)) answer = add(answer, part);
    assert.equal(answer, whole, `cut after ${count} tokens`);
  }
  return whole;
}

let first: LocalHarness;
let second: LocalHarness;
test.before(() => {
  first = makeLocalProvider({ model: 'random' });
  second = makeLocalProvider({ model: 'random' });
  for (const { folder } of [first, second]) {
    makeModels(folder);
    makeGguf(join(folder, 'ponders.gguf'), { template: THINKS, context: 2048 });
  }
});
test.after(async () => {
  await Promise.all([first.close(), second.close()]);
});

const SCHEMA = TOOL_LIST[0]?.parameters ?? {};

test('text with tool calls', async () => {
  const { parts } = await checkEachCut({ model: 'calls', tools: TOOL_LIST });
  assert.equal(
    parts.map(({ type }) => type),
    ['text', 'tool_call', 'tool_call'],
  );
});

test('reasoning and text', async () => {
  const { parts } = await checkEachCut({ model: 'thinks', stop: ['never'] });
  assert.equal(
    parts.map(({ type }) => type),
    ['reasoning', 'text'],
  );
});

test('reasoning that is cut short by its effort, or by its budget', async () => {
  await checkEachCut({ model: 'thinks', reasoning_effort: 'none', max_tokens: 30 });
  const random = { model: 'ponders', temperature: 1, max_tokens: 40 };
  for (const reasoning_budget_tokens of [0, 2, 7])
    await checkEachCut({ ...random, reasoning_budget_tokens });
  const response_format = { type: 'json', name: null, schema: SCHEMA } as const;
  const { parts } = await checkEachCut({ ...random, response_format, reasoning_budget_tokens: 5 });
  assert.equal(
    parts.map(({ type }) => type),
    ['reasoning', 'text'],
  );
});

test('JSON of a schema, at a temperature', async () => {
  const response_format = { type: 'json', name: null, schema: SCHEMA } as const;
  const request = { response_format, temperature: 1, max_tokens: 60, seed: 4 };
  await checkEachCut({ model: 'random', ...request });
});

test('a call that must be made, at a temperature', async () => {
  const request = { tools: TOOL_LIST, tool_choice: { name: 'weather' }, temperature: 1 };
  const { parts } = await checkEachCut({ model: 'random', ...request, max_tokens: 70, seed: 4 });
  assert.is(parts[0]?.type, 'tool_call');
});

test('penalties, top_p, probabilities and a stop text', async () => {
  const request: Asking = {
    model: 'random',
    temperature: 0.9,
    top_p: 0.9,
    presence_penalty: 1,
    frequency_penalty: 0.5,
    logprobs: 2,
    max_tokens: 60,
    seed: 4,
  };
  const { whole } = await readAll(first, request);
  const narrow = { top_k: 30, min_p: 0.01, repeat_penalty: 1.3, dry_multiplier: 2 };
  await checkEachCut({ ...request, ...narrow, top_p: 1 });
  const stop = [whole.text.slice(-6, -3)];
  const cut = await checkEachCut({ ...request, stop });
  assert.is(cut.finish?.type === 'finish' && cut.finish.stop_sequence, stop[0]);
  assert.is(cut.text, whole.text.slice(0, whole.text.indexOf(stop[0] ?? '')));
});

test.run();
