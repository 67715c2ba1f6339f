import { attempt, SVC_MODEL_ID, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const env = { OLLAMA_TEST_EXISTING: '1', OLLAMA_HOST: SVC_URL, OLLAMA_TEST_MODEL: SVC_MODEL_ID };
const args = ['test', '-tags', 'integration,fast', '-json', '-run', 'TestAPI', './integration'];
const said = await run('go', args, { cwd: process.env.CHECKOUT, env, bound_ms: 800_000 }).catch(
  (error) => error.said ?? error.message,
);
const words = new Map();
const ends = new Map();
for (const line of said.split('\n').filter((each) => each.startsWith('{'))) {
  const { Action, Test, Output } = JSON.parse(line);
  if (/\.go:\d+: /.test(Output ?? '')) words.set(Test, Output.trim());
  if (Test !== undefined && ['pass', 'fail'].includes(Action)) ends.set(Test, Action);
}
// A test that has parts ends as they do.
const isPart = (test) => ![...ends.keys()].some((other) => other.startsWith(`${test}/`));
for (const test of [...ends.keys()].filter(isPart))
  await attempt(test, async () => {
    if (ends.get(test) === 'fail') throw new Error(words.get(test));
  });
