import { limitSpecs } from '../limits.ts';
import { limitSetting } from './config.ts';
import { historySpecs } from './history.ts';
import type { SettingSpec } from './layers.ts';
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

/** A setting by its dotted key, also by an old one. Null: there is none. */
export function findSetting(given: string): { key: string; spec: SettingSpec } | null {
  const key = findRenamed(given)?.key ?? given;
  const [group = '', name = ''] = key.includes('.') ? key.split(/\.(.*)/s) : ['', key];
  if (group === '' && Object.hasOwn(settingSpecs, name))
    return { key, spec: settingSpecs[name as keyof typeof settingSpecs] as SettingSpec };
  if (group === 'history' && Object.hasOwn(historySpecs, name))
    return { key, spec: historySpecs[name as keyof typeof historySpecs] as SettingSpec };
  if (group === 'limits' && Object.hasOwn(limitSpecs, name))
    return { key, spec: limitSetting(name as keyof typeof limitSpecs) };
  return null;
}
