import { findRenamed, isRemoved, type RenamedSetting, renamedSettings } from './renamed.ts';
import { suggest } from './suggest.ts';
import {
  brief,
  type ConfigText,
  type Property,
  plainValue,
  properties,
  readConfigText,
  refuse,
} from './text.ts';

/** Where a value came from, the lowest rank last. `providers.json` holds only providers. */
export type Source = 'flag' | 'environment' | 'file' | 'providers.json' | 'models.json' | 'default';

export interface SettingSpec<T = unknown> {
  env: string;
  default: T;
  meaning: string;
  expects: string;
  /**
   * Who takes a change while the daemon runs: the daemon, or each command. Without it, the next
   * start does.
   */
  live?: 'daemon' | 'command';
  /** The value from JSON; undefined if it is malformed. */
  read(value: unknown): T | undefined;
  /** The mistake in a malformed value, as the rest of a sentence. Absent: `expects` says it. */
  findProblem?(value: unknown): string | null;
  /** The text of a value, also a malformed one, without its secret. Absent: it has no secret. */
  mask?(text: string): string;
  /** Converts the text of a flag or a variable to its JSON form. */
  fromText?(text: string): unknown;
  /** The part of a value with secrets that HTTP clients see. Absent: all of it. */
  toShown?(value: T): unknown;
}

/** The content of the file: known names, with unchecked values. */
export interface Written {
  /** By dotted key: the settings, the limits and the history. */
  values: Map<string, Property>;
  providers: Property[];
  /** Settings that have their old name in the file. */
  renamed: RenamedSetting[];
  /** Removed limits that are in the file. */
  removed: string[];
  locate(offset: number): string;
}

/** The names of a group. */
type Known = readonly string[];

export function readWritten(file: string, settings: Known, limits: Known, history: Known): Written {
  const config = readConfigText(file);
  const written: Written = {
    values: new Map(),
    providers: [],
    renamed: [],
    removed: [],
    locate: config?.locate ?? (() => file),
  };
  if (config?.root === undefined) return written;
  for (const property of properties(config, config.root, 'the configuration')) {
    if (property.name === 'providers')
      written.providers = properties(config, property.value, 'providers');
    else if (property.name === 'limits') readGroup(config, property, limits, 'a limit', written);
    else if (property.name === 'history')
      readGroup(config, property, history, 'a setting of history', written);
    else
      put(
        config,
        property,
        { key: property.name, known: [...settings, ...GROUPS], what: 'a setting' },
        written,
      );
  }
  return written;
}

export interface LayerValues {
  written: Written;
  env: NodeJS.ProcessEnv;
  flag: unknown;
}

/**
 * The value of the highest rank, with its source. It checks lower ranks too. An empty variable
 * counts as not set.
 */
export function chooseValue(
  key: string,
  spec: SettingSpec,
  { written, env, flag }: LayerValues,
): [unknown, Source] {
  let choice: [unknown, Source] = [spec.default, 'default'];
  const take = (value: unknown, source: Source, where: string) => {
    const isText = typeof value === 'string' && source !== 'file' && spec.fromText !== undefined;
    const setting = isText ? spec.fromText?.(value) : value;
    const read = spec.read(setting);
    if (read === undefined) {
      const problem =
        spec.findProblem?.(setting) ?? `must be ${spec.expects}, not ${maskedValue(spec, value)}`;
      refuse(where, `${key} ${problem}`, { param: key });
    }
    choice = [read, source];
  };
  const inFile = written.values.get(key);
  const [variable, text] = readVariable(key, spec, env);
  if (inFile !== undefined)
    take(plainValue(inFile.value), 'file', written.locate(inFile.value.offset));
  if (text !== undefined) take(text, 'environment', `environment variable ${variable}`);
  if (flag !== undefined) take(flag, 'flag', `--${key.replaceAll('_', '-')}`);
  return choice;
}

/** A value for a message. */
export function maskedValue(spec: SettingSpec, value: unknown): string {
  return brief(typeof value === 'string' ? (spec.mask?.(value) ?? value) : value);
}

/** The variable of a setting and its text; undefined when it is not set. */
function readVariable(
  key: string,
  spec: SettingSpec,
  env: NodeJS.ProcessEnv,
): [variable: string, text: string | undefined] {
  const old = renamedSettings.find((setting) => setting.key === key)?.env;
  if (old === undefined || !env[old]) return [spec.env, env[spec.env] || undefined];
  if (env[spec.env])
    refuse(`environment variable ${old}`, `${key} is set twice, also by ${spec.env}`, {
      param: key,
    });
  return [old, env[old]];
}

/** A misspelt variable of a limit would silently have no effect. */
export function refuseUnknownVariables(
  env: NodeJS.ProcessEnv,
  prefix: string,
  known: ReadonlySet<string>,
): void {
  const unknown = Object.keys(env).find(
    (variable) => variable.startsWith(prefix) && !known.has(variable),
  );
  if (unknown === undefined) return;
  const near = suggest(unknown, [...known]);
  const hint = near === null ? HINT : `Did you mean: ${near}`;
  refuse('environment', `${brief(unknown)} is not a limit`, { param: unknown, hint });
}

const HINT = 'The tables in docs/operations.md list all settings and limits.';

function readGroup(
  config: ConfigText,
  group: Property,
  known: Known,
  what: string,
  written: Written,
): void {
  for (const property of properties(config, group.value, group.name))
    put(config, property, { key: `${group.name}.${property.name}`, known, what }, written);
}

function put(
  config: ConfigText,
  property: Property,
  { key, known, what }: { key: string; known: Known; what: string },
  { values, renamed, removed }: Written,
): void {
  if (isRemoved(key)) {
    removed.push(key);
    return;
  }
  const old = findRenamed(key);
  if (old === undefined && !known.includes(property.name))
    refuseName(config, property, { what, known });
  const name = old?.key ?? key;
  if (values.has(name))
    refuse(config.locate(property.node.offset), `${name} is set twice, once by its old name`, {
      param: name,
    });
  values.set(name, property);
  if (old !== undefined) renamed.push(old);
}

function refuseName(
  { locate: where }: ConfigText,
  { name, node }: Property,
  { what, known }: { what: string; known: Known },
): never {
  const near = suggest(name, known);
  const hint = near === null ? HINT : `Did you mean: ${near}`;
  refuse(where(node.offset), `${brief(name)} is not ${what}`, { param: name, hint });
}

/** Top-level keys of the file that are not settings. */
const GROUPS = ['providers', 'limits', 'history'];
