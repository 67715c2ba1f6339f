import { randomUUID } from 'node:crypto';
import { constants, type Dirent, promises as fs, type Stats } from 'node:fs';
import { join } from 'node:path';
import { createGate } from '../../async/gate.ts';
import { writeAtomic } from '../../home/atomic-write.ts';
import type { Limits } from '../../limits.ts';
import { diffOf } from './diff.ts';
import { enter, Folders, isHidden, type Place } from './folders.ts';
import { type BuiltInTool, builtInTool, mayCount, maySay, Refusal, textField } from './tool.ts';

/**
 * Files of given folders: a text is read, searched, written and edited.
 *
 * 1. Only plain files with one name count. A link, a pipe or a device is neither read nor replaced.
 *    Neither is a file with several names, since one of them may be outside.
 * 2. A file is replaced at once, and keeps its mode. A reader sees the old text or the new one.
 * 3. A write gives the whole text, so it may be repeated. An edit may not. They change one file at
 *    a time, so that no edit is lost.
 */
export async function fileTools(
  given: readonly string[],
  closed: readonly string[],
  limits: Limits,
): Promise<BuiltInTool[]> {
  const folders = await Folders.open(given, closed);
  const roots = folders.roots.join(', ');
  const where = `The folders are ${roots}. A path is whole, or begins in the first of them.`;
  const path = textField('The path.');
  const oneByOne = createGate(1);
  return [
    builtInTool(
      'list',
      'reads',
      `List a folder. ${where}`,
      { path: maySay('The folder. By default the first one.') },
      async ({ path = '.' }) => folders.at(path, (place) => list(place, limits)),
    ),
    builtInTool(
      'read',
      'reads',
      `Read a text file, whole or some lines of it. ${where}`,
      { path, line: mayCount('The first line.'), lines: mayCount('How many lines.') },
      async ({ path, line = 1, lines }) => {
        const text = await folders.at(path, (place) => readText(place, limits));
        if (line === 1 && lines === undefined) return text;
        const end = lines === undefined ? undefined : line - 1 + lines;
        return text
          .split('\n')
          .slice(line - 1, end)
          .join('\n');
      },
    ),
    builtInTool(
      'search',
      'reads',
      `Find lines with a text, or files by a part of their path. Case does not matter. ${where}`,
      {
        text: maySay('A line must have this text, word for word.'),
        file: maySay('The path must have this text, such as .md'),
        path: maySay('Search this folder only.'),
      },
      (asked, signal) => search(folders, asked, limits, signal),
    ),
    builtInTool(
      'write',
      'replaces',
      `Write a whole text file. One that is there is replaced. ${where}`,
      { path, content: textField('The whole text of the file.') },
      ({ path, content }, signal) =>
        oneByOne(() => folders.at(path, (place) => write(place, content, limits, signal), true)),
      ({ path, content }) =>
        folders
          .at(path, async (place) => diffOf(place.whole, await readText(place, limits), content))
          .catch((error: Refusal) => {
            // A file that is not there, or its folder.
            if ((error.cause as { code?: string } | undefined)?.code !== 'ENOENT') throw error;
            return diffOf(path, '', content);
          }),
    ),
    builtInTool(
      'edit',
      'changes',
      `Replace one text in a file by another. It must be there exactly once. ${where}`,
      { path, old: textField('The text that is there.'), new: textField('The text in its place.') },
      ({ path, old, new: next }, signal) =>
        oneByOne(() =>
          folders.at(path, async (place) => {
            const text = await readText(place, limits);
            return write(place, editText(text, old, next), limits, signal);
          }),
        ),
      ({ path, old, new: next }) =>
        folders.at(path, async (place) => {
          const text = await readText(place, limits);
          return diffOf(place.whole, text, editText(text, old, next));
        }),
    ),
  ];
}

async function list({ folder, name, whole }: Place, limits: Limits): Promise<string> {
  const { entries, more } = await enter(folder, name, (inner) => entriesOf(inner, limits));
  const markOf = (entry: Dirent) =>
    entry.isFile() ? '' : entry.isDirectory() ? '/' : ' (no plain file)';
  const lines = entries.map((entry) => `${entry.name}${markOf(entry)}`);
  const head = `${whole} has ${lines.length} entries; names with a dot first are left out${more}:`;
  return [head, ...lines].join('\n');
}

/** Sorted by name, up to a bound. */
async function entriesOf(folder: string, { file_tool_entries: most }: Limits) {
  const entries: Dirent[] = [];
  let seen = 0;
  for await (const entry of await fs.opendir(folder)) {
    seen += 1;
    if (seen > most) break;
    if (!isHidden(entry.name)) entries.push(entry);
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { entries, more: seen > most ? `, and there are more than ${most} names` : '' };
}

/** Throws Refusal for anything but a text file. */
async function readText(
  { folder, name, whole }: Place,
  { file_tool_bytes: most }: Limits,
): Promise<string> {
  const path = join(folder, name);
  refuseOther(await fs.lstat(path), whole);
  // Without a wait, should a pipe have taken its place.
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  const handle = await fs.open(path, flags);
  try {
    const stat = await handle.stat();
    refuseOther(stat, whole);
    if (stat.size > most)
      throw new Refusal(`${whole} has ${stat.size} bytes; ${most} is the most.`);
    const bytes = Buffer.alloc(stat.size);
    let length = 0;
    for (let got = 1; got > 0 && length < bytes.length; length += got)
      got = (await handle.read(bytes, length, bytes.length - length, length)).bytesRead;
    return decode(bytes.subarray(0, length), whole);
  } finally {
    await handle.close();
  }
}

function refuseOther(stat: Stats, whole: string): void {
  if (!stat.isFile())
    throw new Refusal(`${whole} is ${stat.isDirectory() ? 'a folder' : 'no plain file'}.`);
  if (stat.nlink > 1)
    throw new Refusal(
      `${whole} has ${stat.nlink} names, as hard links. One may be outside the folders, so such ` +
        'files are closed.',
    );
}

function decode(bytes: Buffer, whole: string): string {
  try {
    if (!bytes.includes(0)) return UTF8.decode(bytes);
  } catch {
    // The same as below.
  }
  throw new Refusal(`${whole} is not text: it has ${bytes.length} bytes that are not UTF-8.`);
}
/** With its byte order mark, which an edit keeps. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function editText(text: string, old: string, next: string): string {
  const at = text.indexOf(old);
  if (old === '' || at < 0) throw new Refusal('The file does not have that text.');
  if (text.includes(old, at + 1))
    throw new Refusal('The file has that text several times. Give more of the text around it.');
  return text.slice(0, at) + next + text.slice(at + old.length);
}

async function write(
  { folder, name, whole }: Place,
  text: string,
  { file_tool_bytes: most }: Limits,
  signal: AbortSignal,
): Promise<string> {
  const size = Buffer.byteLength(text);
  if (size > most) throw new Refusal(`The text has ${size} bytes; ${most} is the most.`);
  const path = join(folder, name);
  const now = await fs.lstat(path).catch(() => null);
  if (now !== null) {
    refuseOther(now, whole);
    await fs.access(path, constants.W_OK);
  }
  // A new file gives other users the rights that its folder gives them.
  const mode = now === null ? (await fs.stat(folder)).mode & 0o644 : now.mode & 0o777;
  signal.throwIfAborted();
  // No one can know the name of the draft, so no link waits there.
  const draft = join(folder, `.svc-${randomUUID()}`);
  await writeAtomic(path, text, { mode, sync: true, draft });
  await removeOldDrafts(folder).catch(() => {});
  return `${whole} has ${size} bytes now.`;
}

/** A daemon that died while it wrote left its draft here. */
async function removeOldDrafts(folder: string): Promise<void> {
  let left = DRAFTS_LOOK;
  for await (const { name } of await fs.opendir(folder)) {
    left -= 1;
    if (left < 0) return;
    const path = join(folder, name);
    const isOld = async () => Date.now() - (await fs.lstat(path)).mtimeMs > DRAFT_OLD_MS;
    if (DRAFT.test(name) && (await isOld())) await fs.unlink(path);
  }
}
const DRAFT = /^\.svc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** No write takes as long. */
const DRAFT_OLD_MS = 3_600_000;
/** Names of a folder that are looked at. */
const DRAFTS_LOOK = 10_000;

/** A search ends at its bounds, and reports that. */
async function search(
  folders: Folders,
  asked: { text?: string | undefined; file?: string | undefined; path?: string | undefined },
  limits: Limits,
  signal: AbortSignal,
): Promise<string> {
  const { file_tool_matches: most, file_tool_ms } = limits;
  const text = asked.text?.toLowerCase();
  const file = (asked.file ?? '').toLowerCase();
  const until = performance.now() + file_tool_ms;
  const found: string[] = [];
  let skipped = 0;
  const isOver = () => found.length >= most || performance.now() > until;

  const look = async (place: Place) => {
    if (!place.whole.toLowerCase().includes(file)) return;
    if (text === undefined) return void found.push(place.whole);
    const lines = (await readText(place, limits)).split('\n');
    for (let at = 0; at < lines.length && !isOver(); at += 1)
      if (lines[at]?.toLowerCase().includes(text))
        found.push(`${place.whole}:${at + 1}: ${lines[at]?.slice(0, LINE_MAX)}`);
  };
  const walk = async (folder: string, whole: string, depth: number): Promise<void> => {
    const { entries, more } = await entriesOf(folder, limits);
    if (more !== '') skipped += 1;
    for (const entry of entries) {
      signal.throwIfAborted();
      const place = { folder, name: entry.name, whole: join(whole, entry.name) };
      if (isOver()) return;
      if (folders.isClosed(place.whole)) continue;
      const step = async () => {
        if (entry.isFile()) await look(place);
        else if (entry.isDirectory() && depth < DEPTH_MAX)
          await enter(folder, entry.name, (inner) => walk(inner, place.whole, depth + 1));
      };
      await step().catch(() => {
        skipped += 1;
      });
    }
  };
  for (const root of asked.path === undefined ? folders.roots : [asked.path])
    await folders.at(root, ({ folder, name, whole }) =>
      enter(folder, name, (inner) => walk(inner, whole, 0)),
    );
  signal.throwIfAborted();
  const lines = found.length === 0 ? ['Nothing was found.'] : found;
  if (skipped > 0)
    lines.push(`[${skipped} were left out: too large, no text, of several names, or not readable]`);
  if (isOver()) lines.push(`[The search ended early, after ${most} lines or ${file_tool_ms} ms.]`);
  return lines.join('\n');
}

const DEPTH_MAX = 32;
const LINE_MAX = 300;
