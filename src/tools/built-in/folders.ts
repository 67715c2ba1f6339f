import { constants, existsSync, promises as fs } from 'node:fs';
import { basename, dirname, join, parse, relative, resolve, sep } from 'node:path';
import { Refusal } from './tool.ts';

/** A name in a folder, for the system calls, and the path that people know. */
export interface Place {
  folder: string;
  name: string;
  whole: string;
}

/**
 * The folders that tools may reach.
 *
 * 1. A path must begin in a given folder, and so must each link on its way. The first link that
 *    does not ends the search: the disk is not queried about anything outside, so no answer shows
 *    it.
 * 2. No name below that folder may begin with a dot: such files have keys, settings and programs.
 *    The folders of svc are closed, also as a part of a given folder.
 * 3. Then each folder on the way is opened by its name in the one before, and no link is followed.
 *    A link that another program puts there meanwhile leads nowhere. That needs `/proc`: on other
 *    systems than Linux a path is only checked before it is used.
 */
export class Folders {
  readonly roots: readonly string[];
  /** The folders as they were given, which may lead through links. */
  private readonly given: readonly string[];
  private readonly closed: readonly string[];

  private constructor(
    given: readonly string[],
    roots: readonly string[],
    closed: readonly string[],
  ) {
    this.given = given.map((folder) => resolve(folder));
    this.roots = roots;
    this.closed = closed;
  }

  /** Throws Refusal for a folder that is not there, or is closed. */
  static async open(given: readonly string[], closed: readonly string[]): Promise<Folders> {
    const roots = await Promise.all(given.map(toCanonical));
    const folders = new Folders(
      given,
      roots,
      await Promise.all([...closed, ...SYSTEM].map(toCanonical)),
    );
    for (const root of roots) {
      const stat = await fs.stat(root).catch(() => null);
      if (stat?.isDirectory() !== true) throw new Refusal(`There is no folder ${root}.`);
      if (folders.isClosed(root)) throw new Refusal(`${root} is closed to tools.`);
    }
    return folders;
  }

  isClosed(whole: string): boolean {
    return this.closed.some((folder) => isIn(folder, whole));
  }

  /** Works at a path whose folder no link can replace. `makesMissing`: missing folders. */
  async at<T>(path: string, work: (place: Place) => Promise<T>, makesMissing = false): Promise<T> {
    const whole = await toCanonical(await this.follow(path));
    const root = this.roots.find((folder) => isIn(folder, whole));
    if (root === undefined) throw this.outside(path);
    if (relative(root, whole).split(sep).some(isHidden))
      throw new Refusal(`${path} has a name that begins with a dot. Such files are closed.`);
    if (this.isClosed(whole)) throw new Refusal(`${path} is closed to tools.`);
    const top = parse(whole).root;
    const names = relative(top, dirname(whole)).split(sep).filter(Boolean);
    const go = (folder: string, [name, ...rest]: readonly string[]): Promise<T> =>
      name === undefined
        ? work({ folder, name: basename(whole) || '.', whole })
        : enter(folder, name, (inner) => go(inner, rest), makesMissing);
    return go(top, names).catch((thrown) => {
      throw refusalFor(thrown, path);
    });
  }

  /** The path with no link that leads out. It is followed by hand. Throws Refusal. */
  private async follow(path: string): Promise<string> {
    let whole = resolve(this.roots[0] ?? '', path);
    for (let links = 0; links <= LINKS_MAX; links += 1) {
      const inside = this.inside(whole);
      if (inside === null) throw this.outside(path);
      const link = await firstLink(inside);
      if (link === null) return join(inside.root, ...inside.names);
      whole = link;
    }
    throw new Refusal(`${path} ${WHY.ELOOP}.`);
  }

  private inside(whole: string): { root: string; names: string[] } | null {
    for (const [index, root] of this.roots.entries())
      for (const folder of [root, this.given[index] ?? root])
        if (isIn(folder, whole))
          return { root, names: relative(folder, whole).split(sep).filter(Boolean) };
    return null;
  }

  private outside(path: string): Refusal {
    return new Refusal(`${path} is in none of the given folders: ${this.roots.join(', ')}.`);
  }
}

/** As many as Linux follows. */
const LINKS_MAX = 40;

/** The path with its first link replaced by what that names; null without a link. */
async function firstLink({ root, names }: { root: string; names: string[] }) {
  let at = root;
  for (const [index, name] of names.entries()) {
    const folder = at;
    at = join(folder, name);
    // Anything but a readable link is reported where it is opened.
    const to = await fs.readlink(at).catch(() => null);
    if (to !== null) return resolve(folder, to, ...names.slice(index + 1));
  }
  return null;
}

/** Works in a folder that is opened by its name. A link in its place is refused. */
export async function enter<T>(
  folder: string,
  name: string,
  work: (folder: string) => Promise<T>,
  makesMissing = false,
): Promise<T> {
  const path = join(folder, name);
  const open = () => (HAS_PROC ? fs.open(path, AS_FOLDER) : fs.opendir(path));
  const handle = await open().catch(async (error: NodeJS.ErrnoException) => {
    if (!makesMissing || error.code !== 'ENOENT') throw error;
    await fs.mkdir(path).catch(() => {});
    return open();
  });
  try {
    return await work('fd' in handle ? `/proc/self/fd/${handle.fd}` : path);
  } finally {
    await handle.close();
  }
}

export function isHidden(name: string): boolean {
  return name.startsWith('.');
}

function isIn(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/**
 * The path without links, with the case of letters that the disk has. A path that does not exist,
 * or does not open, stays unchanged: whether a tool may know of it is decided first.
 */
async function toCanonical(path: string): Promise<string> {
  return fs.realpath(path).catch(async (error: NodeJS.ErrnoException) => {
    if (WHY[error.code ?? ''] === undefined || dirname(path) === path)
      throw refusalFor(error, path);
    return join(await toCanonical(dirname(path)), basename(path));
  });
}

const HAS_PROC = existsSync('/proc/self/fd');
/** Needs no right to list the folder. Node.js has no name for `O_PATH`. */
const O_PATH = 0o10000000;
const AS_FOLDER = O_PATH | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0);
/** What looks like files here are processes, devices and settings of the kernel. */
const SYSTEM = ['/proc', '/sys', '/dev'];

/** In words, without the path that the system call had. */
function refusalFor(thrown: unknown, path: string): unknown {
  const { code } = thrown as NodeJS.ErrnoException;
  if (typeof code !== 'string') return thrown;
  return new Refusal(`${path} ${WHY[code] ?? `cannot be used (${code})`}.`, { cause: thrown });
}
const WHY: Readonly<Record<string, string>> = {
  ENOENT: 'is not there',
  ENOTDIR: 'leads through something that is not a folder, or was replaced meanwhile',
  ELOOP: 'is a link, or was replaced by one meanwhile',
  EACCES: 'is not open to svc',
};
