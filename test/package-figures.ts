import { budgetOf, countLinesOf, countNamesOf, KNOWN, packages } from './packages.ts';

/** Prints what each package costs a person to know: `npm run packages`. */

const base = KNOWN.reduce((sum, name) => sum + countLinesOf(name), 0);
const rows = Object.entries(packages).map(([name, { door }]) => {
  const lines = countLinesOf(name);
  const known = (KNOWN as readonly string[]).includes(name) ? base : base + lines;
  return [name, lines, budgetOf(name) ?? '', door === true ? countNamesOf(name) : '', known];
});
const all = [['package', 'lines', 'budget', 'names of its door', 'to know'], ...rows];
for (const row of all)
  process.stdout.write(
    `${String(row[0]).padEnd(12)}${row
      .slice(1)
      .map((cell) => String(cell).padStart(18))
      .join('')}\n`,
  );
