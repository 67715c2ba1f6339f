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
 * 1. A path is resolved with its links. The result must be in a given folder. No name in it below
 *    that folder may begin with a dot: such files have keys, settings and programs.
 * 2. Then each folder on the way is opened by its name in the one before, and no link is followed.
 *    So a link that another program puts there meanwhile leads nowhere. That needs `/proc`: on
 *    other systems than Linux a path is only checked before it is used.
 * 3. The folders of svc are closed, also as a part of a given folder.
 */
export class Folders {
  readonly roots: readonly string[];
  private readonly closed: readonly string[];

  private constructor(roots: readonly string[], closed: readonly string[]) {
    this.roots = roots;
    this.closed = closed;
  }

  /** Throws Refusal for a folder that is not there, or is closed. */
  static async open(given: readonly string[], closed: readonly string[]): Promise<Folders> {
    const roots = await Promise.all(given.map(canonical));
    const folders = new Folders(roots, await Promise.all([...closed, ...SYSTEM].map(canonical)));
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

  /** Works at a path, whose folder no link can replace meanwhile. `make`: with missing folders. */
  async at<T>(path: string, work: (place: Place) => Promise<T>, make = false): Promise<T> {
    const whole = await canonical(resolve(this.roots[0] ?? '', path));
    const root = this.roots.find((folder) => isIn(folder, whole));
    if (root === undefined)
      throw new Refusal(`${path} is in none of the given folders: ${this.roots.join(', ')}.`);
    if (relative(root, whole).split(sep).some(isHidden))
      throw new Refusal(`${path} has a name that begins with a dot. Such files are closed.`);
    if (this.isClosed(whole)) throw new Refusal(`${path} is closed to tools.`);
    const top = parse(whole).root;
    const names = relative(top, dirname(whole)).split(sep).filter(Boolean);
    const go = (folder: string, [name, ...rest]: readonly string[]): Promise<T> =>
      name === undefined
        ? work({ folder, name: basename(whole) || '.', whole })
        : enter(folder, name, (inner) => go(inner, rest), make);
    return go(top, names).catch((thrown) => {
      throw refusalFor(thrown, path);
    });
  }
}

/** Works in a folder that is opened by its name. A link in its place is refused. */
export async function enter<T>(
  folder: string,
  name: string,
  work: (folder: string) => Promise<T>,
  make = false,
): Promise<T> {
  const path = join(folder, name);
  const open = () => (HAS_PROC ? fs.open(path, AS_FOLDER) : fs.opendir(path));
  const handle = await open().catch(async (error: NodeJS.ErrnoException) => {
    if (!make || error.code !== 'ENOENT') throw error;
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

/** The path without links. What is not there yet stays as it is. */
async function canonical(path: string): Promise<string> {
  return fs.realpath(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' || dirname(path) === path) throw refusalFor(error, path);
    return join(await canonical(dirname(path)), basename(path));
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
  ENOTDIR: 'leads through something that is no folder, or was replaced meanwhile',
  ELOOP: 'is a link, or was replaced by one meanwhile',
  EACCES: 'is not open to svc',
};
