import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { numberFields } from '../../contract/options.ts';
import type { Paths } from '../../home/paths.ts';
import { knownNames } from '../completion/known.ts';
import { chatNames } from './commands.ts';

/** The completions for Tab: whole words, and the typed beginning of them. */
export type Completion = [offered: string[], typed: string];

/**
 * Completes a command of a chat, or its value. Null: the line is a message. Only names that have to
 * be looked up come later.
 */
export function completeChat(line: string, paths: Paths): Completion | null | Promise<Completion> {
  const [, name = '', typed] = /^(\/[a-z]*)(?:\s+(\S*))?$/.exec(line) ?? [];
  if (name === '') return null;
  if (typed === undefined) return beginning(chatNames, name);
  const values = VALUES[name];
  return values === undefined
    ? [[], typed]
    : values(paths, typed).then((names) => beginning(names, typed));
}

const VALUES: Readonly<Record<string, (paths: Paths, typed: string) => Promise<string[]>>> = {
  '/model': (paths) => knownNames('models', paths),
  '/preset': (paths) => knownNames('presets', paths),
  '/set': async () => Object.values(numberFields).map(({ flag }) => flag),
  '/load': (paths) => knownNames('runs', paths),
  '/file': async (_, typed) => filesBeside(typed),
  '/save': async (_, typed) => filesBeside(typed),
};

/** A model is found without its provider. */
function beginning(names: readonly string[], typed: string): Completion {
  const found = names.filter((name) => name.startsWith(typed));
  const inside = names.filter((name) => typed !== '' && name.includes(`/${typed}`));
  return [found.length > 0 ? found : inside, typed];
}

/** The files of the folder that the typed path is in. */
function filesBeside(typed: string): string[] {
  const folder = typed.endsWith('/') || typed === '' ? typed : typed.slice(0, -base(typed).length);
  try {
    const entries = readdirSync(inHome(folder === '' ? '.' : folder), { withFileTypes: true });
    return entries.map((entry) => `${folder}${entry.name}${entry.isDirectory() ? '/' : ''}`);
  } catch {
    return [];
  }
}

function base(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** A shell would have replaced the home. Here no shell reads the line. */
export function withHome(path: string): string {
  return path.replace(/^~(?=\/)/, () => homedir());
}

/** The typed path as an absolute path. */
export function inHome(path: string): string {
  return resolve(withHome(path));
}
