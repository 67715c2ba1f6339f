import { edgesOf, WALKED } from './edges.ts';
import { exemptionOf } from './exemptions.ts';
import { runScenarios } from './real.ts';
import { scenarios } from './scenarios.ts';
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
const started = performance.now();
const real = await runScenarios(scenarios);

for (const name of WALKED) {
  const edges = edgesOf(name);
  const fold = walkFold(name);
  const missing = [...edges].filter((edge) => !real.of(name).has(edge)).sort();
  for (const edge of missing)
    left.push(`${name}: ${edge}\n    ${exemptionOf(name, edge) ?? 'NO EXEMPTION'}`);
  const of = (found: ReadonlySet<string>) =>
    `${[...edges].filter((edge) => found.has(edge)).length}`;
  // A call has no stream, so the kernel walks it as a part of its run.
  const kernel = name === 'tool_call' ? null : await walkKernel(name);
  const cuts = name === 'tool_call' || kernel === null ? '' : await walkCrashes(name, kernel);
  rows.push([
    name,
    `${fold.states}`,
    `${edges.size}`,
    `${kernel?.paths ?? ''}`,
    of(fold.edges),
    kernel === null ? '' : of(kernel.edges),
    of(real.of(name)),
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
