import { loadConfig } from '../../config/config.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { fields } from '../terminal/print/table.ts';
import { valueText } from '../upkeep/config/setting.ts';

/** Prints the presets of the configuration. Needs no daemon. */
export async function run({ paths, json }: Context): Promise<number> {
  const { presets } = loadConfig(paths.config);
  const rows = Object.entries(presets).map(([name, preset]): [string, string] => [
    name,
    Object.entries(preset)
      .map(([field, value]) => `${field} ${valueText(value)}`)
      .join(' · '),
  ]);
  if (json) printJson({ presets });
  else if (rows.length > 0) print(fields(rows));
  else note('There is no preset. Add one: svc preset add short --system "Answer in one sentence."');
  return 0;
}
