import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A package that is distributed, and its section in the file of licences. */
export interface Part {
  name: string;
  version: string;
  section: string;
}

/** Throws if the package comes without a licence text and names none. */
export function partOf(folder: string): Part {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  if (texts.length === 0 && typeof license !== 'string')
    throw new Error(`${name} ${version} has no licence.`);
  return {
    name,
    version,
    section: section(`${name} ${version}: ${license ?? 'see below'}`, texts),
  };
}

export function section(title: string, texts: readonly string[]): string {
  return [title, '='.repeat(title.length), ...texts].join('\n\n');
}
