import { edgesOf, MACHINES, type MachineName, type Walked } from './edges.ts';
import { exemptionOf } from './exemptions.ts';
import { runScenarios } from './real.ts';
import { scenariosOf } from './scenarios.ts';
import { walkCrashes, walkSimplePaths } from './walk-crash.ts';
import { walkFold } from './walk-fold.ts';
import { walkKernel } from './walk-kernel.ts';
import { walkParts } from './walk-parts.ts';
import { writeWalked } from './walked.ts';

/**
 * `npm run walk`: every edge of every machine, walked four ways. Prints what was walked and what
 * was not, and why; writes what the diagrams are coloured by. Needs the built program.
 */

const HEAD = [
  'machine',
  'states',
  'edges',
  'paths',
  '(a) fold',
  '(b) kernel',
  '(c) real daemon',
  '(d) cuts',
  'not walked',
];
const rows: string[][] = [HEAD];
const left: string[] = [];
const real = new Map<MachineName, Walked>();
const started = performance.now();

for (const name of MACHINES) {
  const edges = edgesOf(name);
  const fold = walkFold(name);
  const kernel = await walkKernel(name);
  const cuts = await walkCrashes(name, kernel);
  const walked = await runScenarios(scenariosOf(name));
  real.set(name, walked);
  const missing = [...edges].filter((edge) => !walked.of(name).has(edge)).sort();
  for (const edge of missing)
    left.push(`${name}: ${edge}\n    ${exemptionOf(name, edge) ?? 'NO EXEMPTION'}`);
  const of = (found: ReadonlySet<string>) =>
    `${[...edges].filter((edge) => found.has(edge)).length}`;
  rows.push([
    name,
    `${fold.states}`,
    `${edges.size}`,
    `${kernel.paths}`,
    of(fold.edges),
    of(kernel.edges),
    of(walked.of(name)),
    `${cuts}`,
    `${missing.length}`,
  ]);
}
print(rows);
const simple = await walkSimplePaths();
const SCENARIOS = 400;
const parts = await walkParts(SCENARIOS);
process.stdout.write(
  `\nsimple paths of the daemon: ${simple.paths} (kernel), cut at ${simple.cuts} places (crash)\n`,
);
process.stdout.write(
  `random scenarios of the real parts: ${SCENARIOS}, ${parts.walked.events} events, ${parts.stale} stale events refused\n`,
);
process.stdout.write(
  `\nnot walked in a real daemon:\n${left.map((line) => `  ${line}`).join('\n')}\n`,
);
process.stdout.write(`\n${Math.round((performance.now() - started) / 1000)} s\n`);
if (left.some((line) => line.includes('NO EXEMPTION'))) process.exitCode = 1;
else writeWalked();

function print(table: readonly string[][]): void {
  const widths = HEAD.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  for (const row of table)
    process.stdout.write(
      `${row.map((instance, column) => (column === 0 ? instance.padEnd(widths[0] ?? 0) : instance.padStart(widths[column] ?? 0))).join('  ')}\n`,
    );
}
