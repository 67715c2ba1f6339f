import { dirname, join } from 'node:path';
import { type ModelPresets, readModelPresets } from './presets.ts';
import { plainValue, properties, readConfigText } from './text.ts';

/**
 * The choices of `svc model use`, `svc model alias` and `svc provider default`: `models.json`,
 * beside the configuration file.
 *
 * 1. Only svc writes this file. The configuration file is the user's: the daemon never writes it.
 * 2. The configuration file, a variable and a flag go before it.
 * 3. The file is replaced at once, and two changes at the same time are both kept.
 */
export interface ModelChoices {
  /** Null: none is chosen. */
  default: string | null;
  /** The provider of runs that name none. Null: none is chosen. */
  provider: string | null;
  aliases: Readonly<Record<string, string>>;
  /** Default options per alias. */
  presets: ModelPresets;
}

/** The choices; none without a file. Throws config_invalid. */
export function readModelChoices(configFile: string): ModelChoices {
  const text = readConfigText(fileOf(configFile));
  const all = text?.root === undefined ? [] : properties(text, text.root, 'models.json');
  const previous = new Map(all.map(({ name, value }) => [name, plainValue(value)]));
  const aliases = previous.get('aliases');
  const textOf = (name: string) => {
    const value = previous.get(name);
    return typeof value === 'string' ? value : null;
  };
  return {
    default: textOf('default'),
    provider: textOf('provider'),
    presets: readModelPresets(previous.get('presets') ?? {}) ?? {},
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
  // Not imported above: commands only read, and writing needs slow modules of Node.
  const { editOwnFile } = await import('./own-file.ts');
  return editOwnFile(fileOf(configFile), () => edit(readModelChoices(configFile)));
}

function fileOf(configFile: string): string {
  return join(dirname(configFile), 'models.json');
}
