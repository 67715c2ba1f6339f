import { join } from 'node:path';
import {
  getLlama,
  type LlamaContextSequence,
  type LlamaModel,
  LlamaText,
  resolveChatWrapper,
  type Token,
} from 'node-llama-cpp';
import { testModel } from '../../tools/test-models/models.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';
import { Report } from './lib/report.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Tokens per second of the local provider against node-llama-cpp: `npm run bench engine [rounds]`.
 *
 * The provider includes its engine process and its machine. node-llama-cpp runs in this process.
 * Both take turns with the same model file, prompt and threads, greedy. Answers of svc-mini are
 * short, so they show the fixed cost of a run. A real model is then asked with the library alone,
 * to see what a second thread gains there.
 */

const rounds = Number(process.argv[2] ?? 15);
const FLOOR = 'node-llama-cpp in one process';
const report = new Report('engine');
const PROMPT = 'How do I start the daemon?';
const TOKENS = 400;
const REAL_TOKENS = 128;

const local = makeLocalProvider({ threads: null });
const files: Record<string, string> = {
  'svc-mini': 'svc-mini',
  'made, 0.3 M': makeGguf(join(local.folder, 'small.gguf'), {
    width: 96,
    layers: 3,
    context: 2048,
  }),
  'made, 3 M': makeGguf(join(local.folder, 'large.gguf'), { width: 192, layers: 8, context: 2048 }),
};
const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false });
for (const [name, model] of Object.entries(files)) await compare(name, model, local);
const real = testModel('smollm2');
if (real === null) report.addMissing({ way: 'SmolLM2', how: 'npm run test-models' });
else await alone('SmolLM2-135M, Q4_1, the library alone', real);
await llama.dispose();
await local.close();
report.print();

async function compare(name: string, file: string, provider: LocalHarness): Promise<void> {
  const ours = () =>
    readAnswer(provider, { model: file, prompt: PROMPT, max_tokens: TOKENS }).then(
      ({ token_ids }) => token_ids.length,
    );
  await ours();
  const { path, threads, context_length } = provider.engine.snapshot().context.info ?? fail();
  const model = await llama.loadModel({ modelPath: path });
  if (context_length === undefined || threads === undefined) fail();
  const context = await model.createContext({ contextSize: context_length, threads, sequences: 1 });
  const sequence = context.getSequence();
  const prompt = promptTokens(model);
  const direct = () => answer(model, sequence, prompt);
  await takeTurns(report, {
    what: `${name}, ${threads} threads`,
    unit: 'tokens/s',
    rounds,
    floor: FLOOR,
    ways: { [FLOOR]: () => speed(direct), svc: () => speed(ours) },
  });
  await model.dispose();
}

/** One answer, by a loop over `sequence.evaluate` without svc, with one thread and with two. */
async function alone(what: string, modelPath: string): Promise<void> {
  const model = await llama.loadModel({ modelPath });
  const prompt = promptTokens(model);
  const ways: Record<string, () => Promise<number>> = {};
  for (const threads of [1, 2]) {
    const context = await model.createContext({ contextSize: 1024, threads, sequences: 1 });
    const sequence = context.getSequence();
    ways[`${threads} ${threads === 1 ? 'thread' : 'threads'}`] = () =>
      speed(() => answer(model, sequence, prompt, REAL_TOKENS));
  }
  await takeTurns(report, { what, unit: 'tokens/s', rounds, floor: '1 thread', ways });
  await model.dispose();
}

async function speed(run: () => Promise<number>): Promise<number> {
  const began = performance.now();
  return ((await run()) * 1000) / (performance.now() - began);
}

function promptTokens(model: LlamaModel): Token[] {
  const chatHistory = [
    { type: 'user' as const, text: PROMPT },
    { type: 'model' as const, response: [] },
  ];
  return LlamaText(
    resolveChatWrapper(model).generateContextState({ chatHistory }).contextText,
  ).tokenize(model.tokenizer);
}

async function answer(
  model: LlamaModel,
  sequence: LlamaContextSequence,
  prompt: Token[],
  most = TOKENS,
): Promise<number> {
  await sequence.clearHistory();
  let tokens = 0;
  let text = '';
  for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
    text += model.detokenize([token]);
    tokens += 1;
    if (tokens === most) break;
  }
  return text === '' ? 0 : tokens;
}

function fail(): never {
  throw new Error('the engine is not loaded');
}
