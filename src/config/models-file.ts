import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SvcError } from '../errors.ts';
import { writeAtomic } from '../home/atomic-write.ts';
import { withLock } from './lock.ts';
import { plainValue, properties, readConfigText } from './text.ts';

/**
 * What `svc model use` and `svc model alias` choose: `models.json`, beside the configuration file.
 *
 * 1. Only svc writes this file. svc never writes the configuration file, which is the user's.
 * 2. The configuration file, a variable and a flag go before it.
 * 3. The file is replaced at once, and two changes at the same time are both kept.
 */
export interface ModelChoices {
  /** Null: none is chosen. */
  default: string | null;
  aliases: Readonly<Record<string, string>>;
}

/** The choices; none without a file. Throws config_invalid. */
export function readModelChoices(configFile: string): ModelChoices {
  const text = readConfigText(fileOf(configFile));
  const all = text?.root === undefined ? [] : properties(text, text.root, 'models.json');
  const given = new Map(all.map(({ name, value }) => [name, plainValue(value)]));
  const [chosen, aliases] = [given.get('default'), given.get('aliases')];
  return {
    default: typeof chosen === 'string' ? chosen : null,
    aliases: Object.fromEntries(
      Object.entries(aliases ?? {}).filter(
        (entry): entry is [string, string] => typeof entry[1] === 'string',
      ),
    ),
  };
}

/** Throws config_invalid, home_unusable, busy. */
export async function saveModelChoices(
  configFile: string,
  edit: (choices: ModelChoices) => ModelChoices,
): Promise<ModelChoices> {
  const file = fileOf(configFile);
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    return await withLock(`${file}.lock`, async () => {
      const choices = edit(readModelChoices(configFile));
      const text = `${JSON.stringify(choices, null, 2)}\n`;
      // Under the lock one draft at a time is written; that of a dead process is overwritten.
      await writeAtomic(file, text, { sync: true, draft: `${file}.new` });
      return choices;
    });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    throw new SvcError('home_unusable', `${file} cannot be written (${code}).`, { cause: error });
  }
}

function fileOf(configFile: string): string {
  return join(dirname(configFile), 'models.json');
}
