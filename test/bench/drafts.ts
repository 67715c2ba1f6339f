import { testModel } from '../../tools/test-models/models.ts';
import { makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Answers of a real model with guessed tokens, and without: `npm run bench drafts [rounds]`. Both
 * are asked of one engine at temperature 0. A request with a seed is computed token by token. Each
 * prompt begins otherwise, so none is known. The speed is that after the first token. CPU is that
 * of the engine, for a token of the answer, its prompt included.
 */

const rounds = Number(process.argv[2] ?? 5);
const FLOOR = 'each token by itself';
const TOKENS = 256;
const report = new Report('drafts');

const PEOPLE = `interface Person {
  name: string;
  age: number;
}

/** Reads the people of a file, the oldest first. */
function readPeople(path: string): Person[] {
  const people = JSON.parse(readFileSync(path, 'utf8')) as Person[];
  return people.filter((person) => person.age >= 18).sort((one, other) => other.age - one.age);
}

/** Writes a line for each person. */
function printPeople(people: readonly Person[]): string {
  const lines = people.map((person) => person.name + ' is ' + person.age + ' years old');
  return lines.join('\\n');
}
`;
const PROMPTS: Readonly<Record<string, string>> = {
  'code is written again': `Rename printPeople to listPeople in this code, and write all of it again:\n\n${PEOPLE}`,
  'code is explained': `Explain what each function of this code does:\n\n${PEOPLE}`,
  'free text': 'Tell me about the history of the printing press.',
  'a story': 'Write a short story about a fox and a river.',
};

const model = testModel('smollm2');
if (model === null) report.addMissing({ way: 'SmolLM2', how: 'npm run test-models' });
else {
  const local = makeLocalProvider({ batching: 'auto', threads: null });
  const answers = async (prompt: string, seed_asked: boolean) => {
    await local.models.load(model, 600_000, new AbortController().signal);
    const before = cpuMs(local.pid());
    const asking = { model, prompt, seed_asked, temperature: 0, max_tokens: TOKENS };
    const { token_ids, finish } = await readAnswer(local, asking);
    const cpu = (cpuMs(local.pid()) - before) / token_ids.length;
    return { speed: finish?.tokens_per_second ?? Number.NaN, cpu };
  };
  for (const [what, prompt] of Object.entries(PROMPTS)) {
    const cpu = new Map<string, number[]>();
    const way = (name: string, seed_asked: boolean) => async () => {
      const known = cpu.get(name) ?? [];
      const measured = await answers(`${known.length + 1}. ${prompt}`, seed_asked);
      cpu.set(name, [...known, measured.cpu]);
      return measured.speed;
    };
    const ways = { [FLOOR]: way(FLOOR, true), guesses: way('guesses', false) };
    await takeTurns(report, { what, unit: 'tokens/s', rounds, floor: FLOOR, ways });
    for (const [way, values] of cpu)
      report.add({
        what: `${what}, CPU`,
        unit: 'ms a token',
        way,
        values: values.slice(1),
        floor: FLOOR,
      });
  }
  await local.close();
}
report.print();
