// Prints the wins and losses of each confidence rule on unseen questions:
// `npx node test/eval/calibrate.ts [model.gguf]`.
import { modelFile, openAsker } from './ask.ts';
import { type Grade, grade } from './grade.ts';
import { readHeldOut } from './held-out.ts';

const asker = await openAsker(process.argv[2] ?? modelFile);
const asked = [];
for (const question of await readHeldOut())
  asked.push({ question, answer: await asker.ask(question.text) });
await asker.close();

const share = (of: readonly Grade[], what: (result: Grade) => boolean): string =>
  `${((100 * of.filter(what).length) / of.length).toFixed(1)} %`.padStart(8);

console.log('tokens minimum  svc right  svc sure and wrong  foreign declined');
for (const tokens of [1, 2, 3, 4, 6, 8, 12, 16]) {
  for (const minimum of [
    0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99,
  ]) {
    const results = asked.map(({ question, answer }) =>
      grade({ tokens, minimum }, asker.fallback, question, answer),
    );
    const about = results.filter(({ question }) => question.kind !== 'foreign');
    const foreign = results.filter(({ question }) => question.kind === 'foreign');
    console.log(
      `${String(tokens).padStart(6)} ${minimum.toFixed(2).padStart(7)} ${share(about, ({ rightGated }) => rightGated)}   ${share(about, ({ rightGated, unsure }) => !rightGated && !unsure)}            ${share(foreign, ({ rightGated }) => rightGated)}`,
    );
  }
}
