import { parseArgs } from 'node:util';
import { attackNames, endWatch, loadAttack, runAttack, type Scale } from './attack.ts';

/**
 * `npm run attack [name…] [-- --short]`: attacks the built daemon in the long form, all attacks
 * unless some are named. Prints what each cost. Exit 1 when a promise is broken.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { short: { type: 'boolean', default: false } },
});
const scale: Scale = values.short ? 'short' : 'long';
const names = attackNames().filter(
  (name) => positionals.length === 0 || positionals.includes(name),
);
if (names.length === 0) {
  console.log(`There is no such attack. There are: ${attackNames().join(', ')}.`);
  process.exitCode = 2;
}
const rows: Record<string, object> = {};
for (const name of names) {
  console.log(`${name}: ${(await loadAttack(name)).summary}`);
  const {
    problems,
    livez_failures,
    seen_mib: _,
    name: __,
    ...figures
  } = await runAttack(name, scale);
  rows[name] = { ...figures, livez_failed: livez_failures.length, held: problems.length === 0 };
  for (const problem of problems) console.log(`  ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}
endWatch();
console.table(rows);
