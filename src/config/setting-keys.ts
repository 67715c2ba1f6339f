import { limitSpecs } from '../limits.ts';
import { limitSetting } from './config.ts';
import { historySpecs } from './history.ts';
import type { SettingSpec } from './layers.ts';
import { presetProblem, readPresets } from './presets.ts';
import { findRenamed } from './renamed.ts';
import { settingSpecs } from './settings.ts';

/** The dotted keys of all settings, except the providers. */
export function settingKeys(): string[] {
  return [
    ...Object.keys(settingSpecs),
    ...Object.keys(historySpecs).map((name) => `history.${name}`),
    ...Object.keys(limitSpecs).map((name) => `limits.${name}`),
  ];
}

/** The words of settings that take one of several, by key. Their `expects` names them. */
export function settingWords(): Record<string, string[]> {
  const words = settingKeys().map((key): [string, string[]] => {
    const {
      expects = '',
      fromText = (text: string): unknown => text,
      read,
    } = findSetting(key)?.spec ?? {};
    const named = expects.replace(/^one of /, '').split(/, or |, | or /);
    const isTaken = (word: string) => read?.(fromText(word)) !== undefined;
    return [key, named.filter((word) => /^\w+$/.test(word) && isTaken(word))];
  });
  return Object.fromEntries(words.filter(([, taken]) => taken.length > 1));
}

/** Where a dotted key is in the configuration: in a group, under a name that may have dots. */
export function settingPath(key: string): string[] {
  return key.split(/\.(.+)/s, 2);
}

/** A setting by its dotted key, also by an old one. Null: no such setting. */
export function findSetting(word: string): { key: string; spec: SettingSpec } | null {
  const key = findRenamed(word)?.key ?? word;
  const path = settingPath(key);
  const [group = '', name = ''] = path.length === 1 ? ['', key] : path;
  if (group === 'presets') return { key, spec: presetSetting(name) };
  if (group === '' && Object.hasOwn(settingSpecs, name))
    return { key, spec: settingSpecs[name as keyof typeof settingSpecs] as SettingSpec };
  if (group === 'history' && Object.hasOwn(historySpecs, name))
    return { key, spec: historySpecs[name as keyof typeof historySpecs] as SettingSpec };
  if (group === 'limits' && Object.hasOwn(limitSpecs, name))
    return { key, spec: limitSetting(name as keyof typeof limitSpecs) };
  return null;
}

/** One preset of all. */
function presetSetting(name: string): SettingSpec {
  const { presets } = settingSpecs;
  return {
    ...presets,
    default: {},
    expects: 'an object such as {"system": "Answer in one sentence.", "temperature": 0}',
    read: (value) => readPresets({ [name]: value })?.[name],
    findProblem: (value) => presetProblem({ [name]: value }),
  };
}
