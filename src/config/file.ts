import { type FileHandle, mkdir, open, readlink, realpath, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { SvcError } from '../errors.ts';
import type { ProviderConfig } from './config.ts';
import { putProperty, removeProperty } from './edit.ts';
import { withLock } from './lock.ts';
import { type ConfigText, properties, readConfigText } from './text.ts';

/**
 * Edits of the configuration file, which belongs to the person who wrote it.
 *
 * 1. What is not edited stays as it is, comments and layout included.
 * 2. The file is at every instant the old one or the new one, whole; nobody else can read it.
 * 3. Of two edits at one time none is lost: ours wait for each other, and what an editor saved meanwhile is read again.
 * 4. A file that cannot be understood is not touched.
 */

/** Adds the provider, or sets what it has now. Throws config_invalid, home_unusable, busy. */
export function setProvider(file: string, id: string, config: ProviderConfig): Promise<void> {
  return edit(file, (text, known) => {
    const fields = Object.entries(config);
    if (!known.has(id))
      return putProperty(
        text,
        ['providers', id],
        Object.fromEntries(fields.filter(([, value]) => value !== null)),
      );
    return fields.reduce((edited, [name, value]) => {
      const path = ['providers', id, name];
      return value === null ? removeProperty(edited, path) : putProperty(edited, path, value);
    }, text);
  });
}

/** Takes the provider out; one that is not there is no error. Throws as setProvider. */
export function unsetProvider(file: string, id: string): Promise<void> {
  return edit(file, (text) => removeProperty(text, ['providers', id]));
}

type Change = (text: string, known: ReadonlySet<string>) => string;

async function edit(file: string, change: Change): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await withLock(`${file}.lock`, () => apply(file, change));
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError(
      'home_unusable',
      `${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'}).`,
      { cause: error },
    );
  }
}

async function apply(file: string, change: Change): Promise<void> {
  const real = await followLinks(file);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const before = readConfigText(real);
    const text = before?.text ?? '';
    const edited = change(text, providerIds(before));
    if (edited === text) return;
    if (
      await replace(
        real,
        (before?.bom === true ? '\uFEFF' : '') + edited,
        () => readConfigText(real)?.text === before?.text,
      )
    )
      return;
  }
  throw new SvcError('busy', `${file} changes all the time; it was not edited.`);
}

/** How often an editor may save the file just while it is being edited here. */
const TRIES_MAX = 8;

/** Also checks that what is to be edited has the form that editing expects. */
function providerIds(config: ConfigText | null): ReadonlySet<string> {
  if (config?.root === undefined) return new Set();
  const providers = properties(config, config.root, 'the configuration').find(
    ({ name }) => name === 'providers',
  );
  if (providers === undefined) return new Set();
  const all = properties(config, providers.value, 'providers');
  for (const { name, value } of all) properties(config, value, `providers.${name}`);
  return new Set(all.map(({ name }) => name));
}

/** False, and nothing changed, when the file is no longer the one that was read. */
async function replace(file: string, text: string, isUnchanged: () => boolean): Promise<boolean> {
  const fresh = `${file}.new`;
  await rm(fresh, { force: true });
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await fill(handle, text);
    if (!isUnchanged()) return false;
    await rename(fresh, file);
    await syncFolder(dirname(file));
    return true;
  } finally {
    await rm(fresh, { force: true });
  }
}

async function fill(handle: FileHandle, text: string): Promise<void> {
  try {
    await handle.chmod(0o600);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes the new name durable; Windows cannot open a folder, and needs not. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The file that a link stands for, there or not: replacing the link would leave the real file as it was. */
async function followLinks(file: string, hops = 0): Promise<string> {
  const link = await readlink(file).catch(() => null);
  if (link === null) return file;
  if (hops >= LINKS_MAX)
    throw new SvcError('config_invalid', `${file} is a link that leads nowhere.`);
  return followLinks(resolve(await realpath(dirname(file)), link), hops + 1);
}

const LINKS_MAX = 16;
