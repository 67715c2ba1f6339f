import { join } from 'node:path';
import {
  getLlama,
  type LlamaContextSequence,
  type LlamaModel,
  LlamaText,
  resolveChatWrapper,
  type Token,
} from 'node-llama-cpp';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';
import { Report } from './lib/report.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Tokens per second of the local provider against node-llama-cpp: `npm run bench engine [rounds]`.
 *
 * The provider includes its engine process and its machine. node-llama-cpp runs in this process.
 * Both take turns with the same model file, prompt and threads, greedy. Answers of svc-mini are
 * short, so they show the fixed cost of a run.
 */

const rounds = Number(process.argv[2] ?? 15);
const FLOOR = 'node-llama-cpp in one process';
const report = new Report('engine');
const PROMPT = 'How do I start the daemon?';
const TOKENS = 400;

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
  const speed = async (run: () => Promise<number>) => {
    const began = performance.now();
    return ((await run()) * 1000) / (performance.now() - began);
  };
  await takeTurns(report, {
    what: `${name}, ${threads} threads`,
    unit: 'tokens/s',
    rounds,
    floor: FLOOR,
    ways: { [FLOOR]: () => speed(direct), svc: () => speed(ours) },
  });
  await model.dispose();
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
): Promise<number> {
  await sequence.clearHistory();
  let tokens = 0;
  let text = '';
  for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
    text += model.detokenize([token]);
    tokens += 1;
    if (tokens === TOKENS) break;
  }
  return text === '' ? 0 : tokens;
}

function fail(): never {
  throw new Error('the engine is not loaded');
}
