import { fixedLimits } from '../limits.ts';

/** A setting that had another name. The old name still works. */
export interface RenamedSetting {
  /** Its old name, dotted. */
  was: string;
  /** Its name, dotted. */
  key: string;
  /** The variable of the old name. */
  env: string;
}

export const renamedSettings: readonly RenamedSetting[] = [
  { was: 'engine_together', key: 'engine_batching', env: 'SVC_ENGINE_TOGETHER' },
];

/** Limits that were settings, dotted. They are accepted, and have no effect. */
const REMOVED: ReadonlySet<string> = new Set(
  [
    ...Object.keys(fixedLimits),
    'frame_bytes',
    'goodbye_ms',
    'picture_runs',
    'picture_text_bytes',
    'run_parts',
  ].map((name) => `limits.${name}`),
);

export function isRemoved(key: string): boolean {
  return REMOVED.has(key);
}

/** The removed limits that variables set, by the names of the variables. */
export function removedVariables(env: NodeJS.ProcessEnv): string[] {
  return [...REMOVED]
    .map((key) => `SVC_LIMIT_${key.slice('limits.'.length).toUpperCase()}`)
    .filter((variable) => env[variable] !== undefined);
}

/** A warning about outdated names in a configuration, with the remedy. Null: no outdated name. */
export function outdatedNames({
  renamed,
  removed,
}: {
  renamed: readonly RenamedSetting[];
  removed: readonly string[];
}): { detail: string; hint: string } | null {
  const sentences = [
    renamed.length > 0 && {
      detail: `old names: ${renamed.map(({ was }) => was).join(', ')}`,
      hint: `Use the new names: ${renamed.map(({ key }) => key).join(', ')}.`,
    },
    removed.length > 0 && {
      detail: `limits that have no effect any more: ${removed.join(', ')}`,
      hint: `Remove ${removed.join(', ')}: svc uses its own value.`,
    },
  ].filter((sentence) => sentence !== false);
  if (sentences.length === 0) return null;
  return {
    detail: sentences.map(({ detail }) => detail).join('; and '),
    hint: sentences.map(({ hint }) => hint).join(' '),
  };
}

export function findRenamed(was: string): RenamedSetting | undefined {
  return renamedSettings.find((setting) => setting.was === was);
}
