import { promises as fs, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { ToolResult } from '../../src/ports/tools.ts';
import { bootToolServers, type ToolServersHarness } from './tool-servers.ts';

/** svc:files with a folder in a folder. */

const ends: (() => Promise<unknown> | unknown)[] = [];

/** Ends what a test began. */
export async function leaveFolders(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
}

/** Is called at the end of the test. */
export function atEnd(end: () => Promise<unknown> | unknown): void {
  ends.push(end);
}

export const soon = () => AbortSignal.timeout(60_000);

export interface Box extends ToolServersHarness {
  /** The given folder, and the one around it. */
  notes: string;
  around: string;
  use(tool: string, args: object): Promise<ToolResult>;
}

export async function bootFolders(
  options: Parameters<typeof bootToolServers>[1] = {},
): Promise<Box> {
  const around = await fs.realpath(mkdtempSync(join(tmpdir(), 'svc-files-')));
  const notes = join(around, 'notes');
  mkdirSync(join(notes, 'deep'), { recursive: true });
  writeFileSync(join(notes, 'a.md'), 'one\ntwo two\nthree $& ü\n');
  writeFileSync(join(notes, 'deep', 'b.txt'), 'Two of them');
  writeFileSync(join(around, 'secret.txt'), 'SECRET');
  const closed = [join(notes, 'own')];
  mkdirSync(join(notes, 'own'));
  writeFileSync(join(notes, 'own', 'token'), 'SECRET');
  const x = { type: 'svc:files', folders: [notes] };
  const harness = await bootToolServers({ x }, { closed, ...options });
  ends.push(
    () => rmSync(around, { recursive: true, force: true }),
    () => harness.leave(),
  );
  const use = (tool: string, args: object) =>
    harness.servers.call('x', tool, args, { id: 'c', signal: soon(), timeout_ms: 60_000 });
  return { ...harness, notes, around, use };
}

/** Its call is refused by name, and shows nothing of what is outside. */
export async function refused(call: Promise<ToolResult>, why: RegExp): Promise<void> {
  const { text, is_error } = await call;
  assert.ok(is_error, text);
  assert.match(text, why);
  assert.not.match(text, /SECRET|\/proc\/self/);
}
