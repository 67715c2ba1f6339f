import { loadConfig } from '../../config/config.ts';
import { isPresetField, PROMPT_PLACE, presetProblem } from '../../config/presets.ts';
import { writeSetting } from '../../config/user-file.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { readFormat, readRunInput } from '../run/run-input.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { print, printJson } from '../terminal/print/output.ts';

/** Writes a preset with the settings of these flags into the configuration file. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = ''] = args;
  const template = textFlag(flags, 'template');
  const input = { ...readRunInput(flags), ...(await readFormat(flags, paths)) };
  const preset = Object.fromEntries(
    Object.entries({ ...input, template }).filter(
      ([field, value]) => value !== undefined && isPresetField(field),
    ),
  );
  if (Object.keys(preset).length === 0)
    throw new SvcError('usage', 'A preset says at least one thing.', {
      hint: 'For example: svc preset add short --system "Answer in one sentence."',
    });
  if (template !== undefined && !template.includes(PROMPT_PLACE))
    throw new SvcError('usage', `--template must have ${PROMPT_PLACE}, the place of the prompt.`);
  const problem = presetProblem({ [name]: preset });
  if (problem !== null) throw new SvcError('usage', `The preset ${problem}.`);
  if (Object.hasOwn(loadConfig(paths.config).presets, name))
    throw new SvcError('usage', `There is a preset ${JSON.stringify(name)} already.`, {
      hint: `Remove it first: svc preset remove ${name}`,
    });
  await writeSetting(paths.config, `presets.${name}`, preset);
  if (json) printJson({ name, preset });
  else print(oneLine(`Added ${name}. To ask with it: svc run "…" --preset ${name}`));
  return 0;
}
