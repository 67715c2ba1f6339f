import { loadConfig } from '../../config/config.ts';
import { PROMPT_PLACE, type Preset } from '../../config/presets.ts';
import { suggest } from '../../config/suggest.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';

/** The fields that say who answers. They belong together. */
const ROUTE = ['provider', 'model', 'cloud'] as const;

/**
 * A request with a preset of the configuration file: its prompt is put into the template. The
 * request's own values override the preset. Throws usage, config_invalid.
 */
export function withPreset<T extends Record<string, unknown> & { prompt: string }>(
  input: T,
  name: string,
  { config }: Pick<Paths, 'config'>,
): T {
  const { template, ...preset } = findPreset(name, config);
  const hasRoute = ROUTE.some((field) => input[field] !== undefined);
  if (hasRoute) for (const field of ROUTE) delete preset[field];
  const prompt = template?.replaceAll(PROMPT_PLACE, () => input.prompt) ?? input.prompt;
  return { ...preset, ...input, prompt };
}

/** Throws usage, config_invalid. */
export function findPreset(name: string, config: string): Preset {
  const { presets } = loadConfig(config);
  const found = Object.hasOwn(presets, name) ? presets[name] : undefined;
  if (found !== undefined) return { ...found };
  const known = Object.keys(presets);
  const near = suggest(name, known);
  throw new SvcError('usage', `There is no preset ${JSON.stringify(name)}.`, {
    param: 'preset',
    hint:
      known.length === 0
        ? `Add one: svc preset add ${name} --system "Answer in one sentence."`
        : `${near === null ? '' : `Did you mean ${near}? `}There are: ${known.join(', ')}.`,
  });
}
