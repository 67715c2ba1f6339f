import { spawn } from 'node:child_process';
import { globSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * `npm run bench [name…] [number…] [--only ROWS] [--json FILE]` runs each measurement in its own
 * process, one after the other. They print medians and ratios, and assert nothing. The numbers go
 * to each one. ROWS begins the names of the wanted rows of `answers`, or ways of `conversation`.
 * FILE gets a line of JSON for each.
 */
const folder = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const option = (name: string) =>
  args.includes(name) ? args.splice(args.indexOf(name), 2)[1] : undefined;
const [json, only] = [option('--json'), option('--only')];
const numbers = args.filter((one) => /^\d+$/.test(one));
const wanted = args.filter((one) => !numbers.includes(one));
const all = globSync('*.ts', { cwd: folder })
  .map((file) => basename(file, '.ts'))
  .filter((name) => name !== 'run')
  .sort();
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`There is no measurement ${unknown.join(', ')}. There are: ${all.join(', ')}.`);
  process.exit(2);
}
if (json !== undefined) rmSync(json, { force: true });

for (const name of wanted.length > 0 ? wanted : all) {
  console.log(`\n== ${name}`);
  const child = spawn(process.execPath, [join(folder, `${name}.ts`), ...numbers], {
    stdio: 'inherit',
    env: {
      ...process.env,
      ...(json ? { BENCH_JSON: json } : {}),
      ...(only ? { BENCH_ONLY: only } : {}),
    },
  });
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
  if (code !== 0) process.exitCode = 1;
}
