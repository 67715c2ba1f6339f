import { brief, type ConfigText, type Property, plainValue, properties, readConfigText, refuse } from './config-text.ts';

/** Where a value came from, the lowest rank last. */
export type Source = 'flag' | 'environment' | 'file' | 'default';

export interface SettingSpec<T = unknown> {
  env: string;
  default: T;
  meaning: string;
  expects: string;
  /** The value from JSON; undefined when it is not of the right form. */
  read(value: unknown): T | undefined;
  /** The text of a flag or a variable as it would be in JSON. */
  fromText?(text: string): unknown;
}

/** What the file holds: its names are known ones, its values not checked yet. */
export interface Written {
  /** By dotted key: the settings and the limits. */
  values: Map<string, Property>;
  providers: Property[];
  where(offset: number): string;
}

export function readWritten(file: string, isSetting: (name: string) => boolean, isLimit: (name: string) => boolean): Written {
  const config = readConfigText(file);
  const written: Written = { values: new Map(), providers: [], where: config?.where ?? (() => file) };
  if (config?.root === undefined) return written;
  for (const property of properties(config, config.root, 'the configuration')) {
    if (property.name === 'providers') written.providers = properties(config, property.value, 'providers');
    else if (property.name === 'limits') readLimits(config, property, isLimit, written.values);
    else if (isSetting(property.name)) written.values.set(property.name, property);
    else refuseName(config, property, 'a setting');
  }
  return written;
}

export interface Given {
  written: Written;
  env: NodeJS.ProcessEnv;
  flag: unknown;
}

/**
 * The value that ranks highest, with its source. Every one that is given is checked, also where another outranks it; a
 * variable that is empty counts as not set.
 */
export function chooseValue(key: string, spec: SettingSpec, { written, env, flag }: Given): [unknown, Source] {
  let choice: [unknown, Source] = [spec.default, 'default'];
  const take = (value: unknown, source: Source, where: string) => {
    const isText = typeof value === 'string' && source !== 'file' && spec.fromText !== undefined;
    const read = spec.read(isText ? spec.fromText?.(value) : value);
    if (read === undefined) refuse(where, `${key} must be ${spec.expects}, not ${brief(value)}`, { param: key });
    choice = [read, source];
  };
  const inFile = written.values.get(key);
  const text = env[spec.env];
  if (inFile !== undefined) take(plainValue(inFile.value), 'file', written.where(inFile.value.offset));
  if (text !== undefined && text !== '') take(text, 'environment', `environment variable ${spec.env}`);
  if (flag !== undefined) take(flag, 'flag', `--${key.replaceAll('_', '-')}`);
  return choice;
}

/** A limit that is set by a misspelt variable would silently not apply. */
export function refuseUnknownVariables(env: NodeJS.ProcessEnv, prefix: string, known: ReadonlySet<string>): void {
  const unknown = Object.keys(env).find((variable) => variable.startsWith(prefix) && !known.has(variable));
  if (unknown !== undefined) refuse('environment', `${brief(unknown)} is not a limit`, { param: unknown, hint: HINT });
}

const HINT = 'The tables in docs/operations.md list all settings and limits.';

function readLimits(config: ConfigText, limits: Property, isLimit: (name: string) => boolean, values: Written['values']): void {
  for (const property of properties(config, limits.value, 'limits')) {
    if (!isLimit(property.name)) refuseName(config, property, 'a limit');
    values.set(`limits.${property.name}`, property);
  }
}

function refuseName({ where }: ConfigText, { name, node }: Property, what: string): never {
  refuse(where(node.offset), `${brief(name)} is not ${what}`, { param: name, hint: HINT });
}
