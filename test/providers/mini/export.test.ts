import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openAsker } from '../../eval/ask.ts';

interface Case {
  readonly prompt: string;
  readonly tokens: readonly number[];
}

// The greedy tokens of the trainer, recorded when it wrote the model file.
const lines = (await readFile(new URL('trainer-tokens.jsonl', import.meta.url), 'utf8'))
  .trim()
  .split('\n');
const cases = lines.map((line) => JSON.parse(line) as Case);
const asker = await openAsker();

test('llama.cpp gives the same greedy tokens as the trainer for 100 prompts', async () => {
  assert.is(cases.length, 100);
  for (const { prompt, tokens } of cases) {
    const { tokens: said } = await asker.ask(prompt);
    assert.equal(said, tokens, prompt);
  }
});

test.after(() => asker.close());
test.run();
