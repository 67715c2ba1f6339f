import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { platform, platformOf, type System } from '../../src/home/platform.ts';

/** Runs with what svc does on another system. The files and processes are those of this one. */
export async function asSystem<T>(system: System, run: () => T | Promise<T>): Promise<T> {
  const own = { ...platform };
  Object.assign(platform, platformOf(system));
  try {
    return await run();
  } finally {
    Object.assign(platform, own);
  }
}

export interface FakeCommands {
  folder: string;
  /** The words of each call, in order. */
  calls(): string[];
}

/** Runs with commands of another system in the path. Each is the text of a script of a shell. */
export async function withCommands<T>(
  commands: Readonly<Record<string, string>>,
  run: (fake: FakeCommands) => T | Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-commands-'));
  const log = join(folder, 'calls');
  writeFileSync(log, '');
  for (const [name, script] of Object.entries(commands)) {
    const file = join(folder, name);
    writeFileSync(file, `#!/bin/sh\necho "${name} $*" >>'${log}'\n${script}\n`);
    chmodSync(file, 0o755);
  }
  const { PATH } = process.env;
  process.env.PATH = `${folder}${delimiter}${PATH}`;
  try {
    const calls = () => readFileSync(log, 'utf8').split('\n').slice(0, -1);
    return await run({ folder, calls });
  } finally {
    process.env.PATH = PATH;
    rmSync(folder, { recursive: true, force: true });
  }
}
