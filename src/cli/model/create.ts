import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { whyUnusable } from '../../causes.ts';
import { SvcError } from '../../errors.ts';
import { MODELFILE_BYTES_MAX } from '../../limits.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { readStdin } from '../terminal/parse/read-stdin.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

/** Makes a model of a Modelfile, and prints its name. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = ''] = args;
  const file = textFlag(flags, 'file') ?? 'Modelfile';
  // The daemon has another working folder.
  const folder = file === '-' ? process.cwd() : dirname(resolve(file));
  const input = { name, modelfile: await readText(file), folder };
  const model = await askDaemon(paths, 'model.create', input, { timeout_ms: CREATE_MS });
  if (json) printJson(model);
  else {
    print(oneLine(name));
    note(oneLine(`It asks ${model.alias_of}. Ask it with: svc run "…" --model ${name}`));
  }
  return 0;
}

/** Throws usage for a text that cannot be a Modelfile. */
async function readText(file: string): Promise<string> {
  const tooLarge = () =>
    new SvcError(
      'usage',
      `A Modelfile has at most ${MODELFILE_BYTES_MAX} bytes. This one has more.`,
    );
  try {
    if (file !== '-' && statSync(file).size > MODELFILE_BYTES_MAX) throw tooLarge();
    const bytes =
      file === '-' ? await readStdin(MODELFILE_BYTES_MAX, tooLarge) : readFileSync(file);
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const why = error instanceof TypeError ? 'it is not UTF-8 text' : whyUnusable(error);
    throw new SvcError('usage', `${file} cannot be read: ${why}.`, {
      cause: error,
      hint: 'Name the Modelfile with --file. For example: svc model create mario --file Modelfile',
    });
  }
}

/** The header of a large file may have to be read. */
const CREATE_MS = 60_000;
