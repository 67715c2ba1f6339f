import { writeSetting } from '../../config/user-file.ts';
import { oneLine } from '../../logs/plain.ts';
import { findPreset } from '../run/preset.ts';
import type { Context } from '../terminal/context.ts';
import { print, printJson } from '../terminal/print/output.ts';

/** Removes a preset from the configuration file. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [name = ''] = args;
  findPreset(name, paths.config);
  await writeSetting(paths.config, `presets.${name}`, undefined);
  if (json) printJson({ removed: name });
  else print(oneLine(`Removed the preset ${name}.`));
  return 0;
}
