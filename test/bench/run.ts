import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * `npm run bench [name…]` runs each measurement in its own process. They print ratios and assert
 * nothing.
 */
const folder = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const names = globSync('*.ts', { cwd: folder })
  .map((file) => basename(file, '.ts'))
  .filter((name) => name !== 'run' && (wanted.length === 0 || wanted.includes(name)))
  .sort();

for (const name of names) {
  console.log(`\n== ${name}`);
  const child = spawn(process.execPath, ['--import', 'tsx', join(folder, `${name}.ts`)], {
    stdio: 'inherit',
  });
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
  if (code !== 0) process.exitCode = 1;
}
