import { readLines } from './ask.ts';
import type { Question } from './questions.ts';

const corpus = new URL('../../tools/svc-mini/corpus/', import.meta.url);
const files = [
  'commands',
  'flags',
  'states',
  'endpoints',
  'exit-codes',
  'providers',
  'concepts',
  'talk',
];

/**
 * Ways to ask that were written with those of the corpus and never trained on: many more than the
 * evaluation has, so the gate is set on them.
 */
export async function readHeldOut(): Promise<Question[]> {
  const facts = await readFacts();
  let name = '';
  return (await readLines(new URL('held-out.txt', corpus))).flatMap((line) => {
    if (line.startsWith('# ')) name = line.slice(2);
    const { kind, answers } = facts.get(name) ?? { kind: 'foreign', answers: [] };
    if (line.startsWith('# ')) return [];
    return line
      .split(' | ')
      .map((text) => ({
        kind,
        text,
        needed: answers.length === 0 ? [] : [answers],
        half: 'open' as const,
      }));
  });
}

async function readFacts(): Promise<Map<string, { kind: string; answers: string[] }>> {
  const facts = new Map<string, { kind: string; answers: string[] }>();
  for (const kind of files) {
    let answers: string[] = [];
    for (const line of await readLines(new URL(`${kind}.txt`, corpus))) {
      const [, name] = /^# (\S+)/.exec(line) ?? [];
      if (name !== undefined) {
        answers = [];
        facts.set(name, { kind, answers });
      }
      if (line.startsWith('= ')) answers.push(line.slice(2));
    }
  }
  return facts;
}
