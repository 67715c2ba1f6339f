import { existsSync, statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import type { SettingSpec } from '../config/layers.ts';
import { findSetting, settingKeys } from '../config/setting-keys.ts';
import type {
  AppliedSettings,
  Configuration,
  SettingRecord,
  SettingsRecord,
} from '../contract/settings.ts';
import { asSvcError } from '../errors.ts';

/** The settings of the files that are not in effect. */
export interface ConfigChanges {
  /** Dotted keys. */
  keys: string[];
  /** Why the files cannot be read; null if they can. */
  problem: string | null;
}

export interface LiveConfigOptions {
  config: Config;
  /** Reads the files again, with the flags and variables of this daemon. Throws config_invalid. */
  reload(): Config;
  /** Passes a changed setting to the part that keeps its own copy. */
  onChange(key: string, config: Config): void;
}

/**
 * Compares the configuration of the daemon with its file, and applies the settings that may change
 * while the daemon runs. It owns the last reading of the file.
 *
 * 1. The file is read again only after it changed.
 * 2. Only settings that are marked `live` change. The others wait for the next start. What each
 *    command reads itself is always in force.
 * 3. A file with an error changes nothing.
 */
export class LiveConfig implements Configuration {
  private readonly options: LiveConfigOptions;
  private seen = '';
  private fresh: Config | null = null;
  private problem: string | null = null;

  constructor(options: LiveConfigOptions) {
    this.options = options;
    this.seen = versionOf(options.config.file);
  }

  changes(): ConfigChanges {
    const version = versionOf(this.options.config.file);
    if (version !== this.seen) {
      this.seen = version;
      this.read();
    }
    return {
      keys: this.fresh === null ? [] : this.findDiffering(this.fresh),
      problem: this.problem,
    };
  }

  /** Every setting. Secrets are not shown. */
  settings(): SettingsRecord {
    const { config } = this.options;
    const { keys: pending, problem } = this.changes();
    const recordOf = (key: string): SettingRecord => {
      const spec = findSetting(key)?.spec as SettingSpec;
      const shown = (of: Config) => {
        const value = settingOf(of, key);
        return spec.toShown === undefined ? value : spec.toShown(value);
      };
      const fresh = pending.includes(key) ? this.fresh : null;
      const present = spec.live === 'command' ? (this.fresh ?? config) : config;
      return {
        key,
        value: shown(present),
        hidden: !isSame(shown(present), settingOf(present, key)),
        default: spec.default,
        source: present.sources[key] ?? 'default',
        variable: spec.env,
        meaning: spec.meaning,
        expects: spec.expects,
        change: CHANGE[spec.live ?? 'start'],
        pending: fresh === null ? null : { value: shown(fresh) },
      };
    };
    return {
      file: config.file,
      file_exists: existsSync(config.file),
      problem,
      pending,
      settings: settingKeys().map(recordOf),
    };
  }

  /** Throws config_invalid. */
  apply(): AppliedSettings {
    const { config, reload, onChange: changed } = this.options;
    this.seen = versionOf(config.file);
    const fresh = reload();
    this.fresh = fresh;
    this.problem = null;
    const result: AppliedSettings = { applied: [], after_restart: [] };
    for (const key of this.findDiffering(fresh)) {
      const isLive = liveOf(key) === 'daemon';
      result[isLive ? 'applied' : 'after_restart'].push(key);
      if (!isLive) continue;
      put(config, key, settingOf(fresh, key));
      config.sources[key] = fresh.sources[key] ?? 'default';
      changed(key, config);
    }
    return result;
  }

  private read(): void {
    try {
      this.fresh = this.options.reload();
      this.problem = null;
    } catch (error) {
      this.fresh = null;
      this.problem = asSvcError(error).message;
    }
  }

  private findDiffering(fresh: Config): string[] {
    const { config } = this.options;
    const differs = (key: string) =>
      liveOf(key) !== 'command' && !isSame(settingOf(config, key), settingOf(fresh, key));
    return [...settingKeys().filter(differs), ...findChangedProviders(config, fresh)];
  }
}

const CHANGE = { daemon: 'live', command: 'command', start: 'restart' } as const;

function liveOf(key: string): SettingSpec['live'] {
  return findSetting(key)?.spec.live;
}

/** Providers of the user's file. The commands change the others at once. */
function findChangedProviders(config: Config, fresh: Config): string[] {
  const inFile = ({ sources }: Config, id: string) => sources[`providers.${id}`] === 'file';
  const textOf = (of: Config, id: string) => inFile(of, id) && JSON.stringify(of.providers[id]);
  const ids = new Set([...Object.keys(config.providers), ...Object.keys(fresh.providers)]);
  return [...ids]
    .filter((id) => textOf(config, id) !== textOf(fresh, id))
    .map((id) => `providers.${id}`);
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The group of a key and its name in there. */
function placeOf(config: Config, key: string): [Record<string, unknown>, string] {
  const [group = '', name] = key.split('.');
  const inside = config as unknown as Record<string, unknown>;
  return name === undefined ? [inside, group] : [inside[group] as Record<string, unknown>, name];
}

function settingOf(config: Config, key: string): unknown {
  const [group, name] = placeOf(config, key);
  return group[name];
}

function put(config: Config, key: string, value: unknown): void {
  const [group, name] = placeOf(config, key);
  group[name] = value;
}

/** Identifies a version of a file; empty without one. */
function versionOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs}`;
}
