import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import { asRecord, parseForeignJson } from '../../json.ts';

export type Module = Record<string, unknown>;

/**
 * Loads a package: of svc itself, or that the user installed in the folder of adapters. Throws
 * provider_adapter_missing, with the command that installs it.
 */
export async function loadPackage(name: string, folder: string): Promise<Module> {
  const own = await tryImport(name, name);
  if (own !== null) return own;
  const entry = entryOf(join(folder, 'node_modules', name));
  const installed = entry === null ? null : await tryImport(entry, name);
  if (installed !== null) return installed;
  const version = versionOf(name);
  throw new SvcError(
    'provider_adapter_missing',
    `The adapter needs the package ${name}, which is not installed.`,
    { hint: `Install it with: npm install --prefix "${folder}" ${name}${version}` },
  );
}

async function tryImport(specifier: string, name: string): Promise<Module | null> {
  try {
    return (await import(specifier)) as Module;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`)) return null;
    const why = code === undefined ? '' : ` (${code})`;
    throw new SvcError(
      'provider_adapter_missing',
      `The package ${name} is installed, but cannot be loaded${why}.`,
      { cause },
    );
  }
}

/** The address of the main file of a package. Null: it is not there. */
function entryOf(folder: string): string | null {
  const { exports, module, main } = manifest(join(folder, 'package.json'));
  const root = asRecord(exports)['.'] ?? exports;
  const file = conditioned(root) ?? module ?? main ?? 'index.js';
  if (typeof file !== 'string' || manifest(join(folder, 'package.json')).name === undefined)
    return null;
  return pathToFileURL(join(folder, file)).href;
}

/** The file of the conditions that Node has for an import. */
function conditioned(entry: unknown): string | null {
  if (typeof entry === 'string') return entry;
  const conditions = asRecord(entry);
  for (const name of ['node', 'import', 'default']) {
    const file = name in conditions ? conditioned(conditions[name]) : null;
    if (file !== null) return file;
  }
  return null;
}

/** svc is tested with this version of the package. */
function versionOf(name: string): string {
  const { dependencies } = manifest(join(packageRoot(), 'package.json'));
  const version = asRecord(dependencies)[name];
  return typeof version === 'string' ? `@${version}` : '';
}

function manifest(file: string): Record<string, unknown> {
  try {
    return asRecord(parseForeignJson(readFileSync(file, 'utf8')));
  } catch {
    return {};
  }
}
