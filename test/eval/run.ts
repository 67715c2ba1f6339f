// `npm run eval`: accuracy by kind of question, with and without the confidence rule.
// `-- --failures` also shows the failures of the open half. `-- --open` asks only that half.
import { parseArgs } from 'node:util';
import { modelFile, openAsker } from './ask.ts';
import { type Grade, grade } from './grade.ts';
import { type Half, readQuestions } from './questions.ts';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: modelFile },
    failures: { type: 'boolean', default: false },
    open: { type: 'boolean', default: false },
  },
});

const halvesShown: readonly Half[] = ['open', 'blind', 'fresh', 'independent', 'second'];
const count = (of: readonly Grade[], what: (result: Grade) => boolean): number =>
  of.filter(what).length;
const percent = (of: readonly Grade[], what: (result: Grade) => boolean): string =>
  (of.length === 0 ? '-' : `${((100 * count(of, what)) / of.length).toFixed(1)} %`).padStart(8);

function printTable(results: readonly Grade[]): void {
  const halves = halvesShown.map((half) => `${half} gated`.padStart(20)).join('');
  console.log(`${'kind'.padEnd(12)} questions  ungated    gated  sure and wrong |${halves}`);
  for (const kind of new Set(results.map(({ question }) => question.kind)))
    printRow(
      kind,
      results.filter(({ question }) => question.kind === kind),
    );
  printRow(
    'about svc',
    results.filter(({ question }) => question.kind !== 'foreign'),
  );
  printRow('all', results);
}

function printRow(name: string, of: readonly Grade[]): void {
  const halves = halvesShown.map((half) => of.filter(({ question }) => question.half === half));
  const cells = halves.map(
    (part) =>
      `${`${count(part, ({ rightGated }) => rightGated)}/${part.length}`.padStart(12)}${percent(part, ({ rightGated }) => rightGated)}`,
  );
  const sureAndWrong = percent(of, ({ rightGated, unsure }) => !rightGated && !unsure);
  console.log(
    `${name.padEnd(12)}${String(of.length).padStart(10)} ${percent(of, ({ right }) => right)} ${percent(of, ({ rightGated }) => rightGated)}        ${sureAndWrong} |${cells.join('')}`,
  );
}

/** Only the open half is shown: who reads the other failures can no longer measure with them. */
function printFailures(results: readonly Grade[]): void {
  for (const { question, answer, right, rightGated, unsure } of results) {
    if (question.half !== 'open' || (right && rightGated)) continue;
    console.log(
      `${right ? 'lost ' : unsure ? 'unsure' : 'WRONG'} ${answer.confidence.toFixed(3)} ${question.kind} | ${question.text} -> ${answer.text}`,
    );
  }
}

const asker = await openAsker(options.model);
const results: Grade[] = [];
for (const question of await readQuestions())
  if (!options.open || question.half === 'open')
    results.push(grade(asker.rule, asker.fallback, question, await asker.ask(question.text)));
await asker.close();
if (options.failures) printFailures(results);
printTable(results);
const invented = results.flatMap((result) => result.invented);
console.log(`made-up commands or flags: ${invented.length === 0 ? 'none' : invented.join(', ')}`);
console.log(
  `answers that did not end: ${count(results, ({ answer }) => !answer.ended)}; gate: ${asker.rule.tokens} tokens, minimum ${asker.rule.minimum.toFixed(3)}`,
);
if (invented.length > 0) process.exitCode = 1;
