import { readFileSync, statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { whyUnusable } from '../causes.ts';
import { asSvcError, SvcError } from '../errors.ts';
import { targetOf, writeAtomic } from '../home/atomic-write.ts';
import { refuseOpenBind } from './address.ts';
import { loadConfig } from './config.ts';
import { withLock } from './lock.ts';
import { renamedSettings } from './renamed.ts';
import { settingPath } from './setting-keys.ts';
import { jsonc } from './text.ts';

/**
 * The changes that a user asks for in the configuration file.
 *
 * 1. Only `svc config set` and `svc config edit` write this file. The daemon never does.
 * 2. Comments and the order of the settings stay.
 * 3. The whole text is checked before it replaces the file. A text with an error replaces nothing.
 * 4. The file keeps its mode, and a link stays a link.
 */

/** Sets a setting, or removes it (undefined). Throws config_invalid, home_unusable, busy. */
export async function writeSetting(file: string, key: string, value: unknown): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await withLock(`${file}.lock`, async () => {
    const before = readUserFile(file);
    const old = renamedSettings.filter((setting) => setting.key === key);
    const changes: [string[], unknown][] = [
      ...old.map(({ was }): [string[], unknown] => [settingPath(was), undefined]),
      [settingPath(key), value],
    ];
    const after = changes.reduce((text, [path, to]) => withValue(text, path, to), before);
    if (after === before) return;
    await replaceUserFile(file, after).catch((error: unknown) => {
      // A mistake that was there before has another place in the new text.
      loadConfig(file);
      throw error;
    });
  });
}

/**
 * Changes values of a file of JSON with comments that svc and people edit. `edit` reads it under
 * the lock; undefined removes a value. The lock stays, so that of a file of another program is in
 * the folder of svc. Throws home_unusable, busy, and the errors of `edit`.
 */
export async function editUserFile(
  file: string,
  edit: () => readonly [string[], unknown][],
  lock = `${file}.lock`,
): Promise<void> {
  for (const each of [file, lock]) await mkdir(dirname(each), { recursive: true, mode: 0o700 });
  await withLock(lock, async () => {
    const before = readUserFile(file);
    const after = edit().reduce((text, [path, to]) => withValue(text, path, to), before);
    if (after === before) return;
    const target = targetOf(file);
    await writeAtomic(target, after, { sync: true }).catch((error: unknown) => {
      throw unusableErrorOf(file, error);
    });
  });
}

/** The text of the file; an empty configuration without one. */
export function readUserFile(file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '{}\n';
    throw unusableErrorOf(file, error);
  }
}

/** Replaces the text that an editor was given. Throws usage if the file has another one by now. */
export async function replaceEdited(file: string, before: string, after: string): Promise<void> {
  await withLock(`${file}.lock`, async () => {
    if (readUserFile(file) !== before)
      throw new SvcError('usage', `${file} was changed meanwhile, so it is not replaced.`);
    await replaceUserFile(file, after);
  });
}

/** Throws config_invalid with the place of a mistake, home_unusable. */
export async function replaceUserFile(file: string, text: string): Promise<void> {
  const target = targetOf(file);
  const mode = (statSync(target, { throwIfNoEntry: false })?.mode ?? 0o600) & 0o777;
  const draft = `${file}.draft`;
  try {
    await writeAtomic(draft, text, { mode });
    check(draft, file);
    await writeAtomic(target, text, { mode, sync: true });
  } catch (error) {
    throw error instanceof SvcError ? error : unusableErrorOf(file, error);
  } finally {
    await rm(draft, { force: true });
  }
}

function withValue(text: string, path: string[], value: unknown): string {
  // The parser throws when it removes a missing key of a missing group.
  if (value === undefined && !has(text, path)) return text;
  const formattingOptions = { insertSpaces: true, tabSize: 2, eol: '\n' };
  return jsonc().applyEdits(text, jsonc().modify(text, path, value, { formattingOptions }));
}

function has(text: string, path: string[]): boolean {
  const root = jsonc().parseTree(text);
  return root !== undefined && jsonc().findNodeAtLocation(root, path) !== undefined;
}

/** The draft is beside the file, so it is read with the other files of the configuration. */
function check(draft: string, file: string): void {
  try {
    refuseOpenBind(loadConfig(draft));
  } catch (thrown) {
    const { code, message, hint, param } = asSvcError(thrown);
    throw new SvcError(code, message.replaceAll(draft, file), {
      hint,
      cause: thrown,
      ...(param === null ? {} : { param }),
    });
  }
}

function unusableErrorOf(file: string, cause: unknown): SvcError {
  const why = whyUnusable(cause);
  return new SvcError('home_unusable', `${file} cannot be read and written: ${why}.`, { cause });
}
