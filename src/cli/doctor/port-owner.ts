import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';

/** The process that listens on a TCP port of this machine, as `name (pid 1)`; null if unknown. */
export async function portOwner(port: number): Promise<string | null> {
  const inodes = new Set(
    (
      await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((table) => listening(table, port)))
    ).flat(),
  );
  if (inodes.size === 0) return null;
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  for (const pid of pids)
    if (await hasSocket(pid, inodes)) return `${await nameOf(pid)} (pid ${pid})`;
  return null;
}

const LISTEN = '0A';

async function listening(table: string, port: number): Promise<string[]> {
  const text = await readFile(table, 'latin1').catch(() => '');
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return text.split('\n').flatMap((row) => {
    const [, local = '', , state, , , , , , inode = ''] = row.trim().split(/\s+/);
    return state === LISTEN && local.endsWith(`:${hex}`) ? [`socket:[${inode}]`] : [];
  });
}

async function hasSocket(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const files = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const links = await Promise.all(
    files.map((file) => readlink(`/proc/${pid}/fd/${file}`).catch(() => '')),
  );
  return links.some((link) => inodes.has(link));
}

/**
 * The program and its script, without its arguments, which may have secrets. The system has only
 * the name of a thread.
 */
async function nameOf(pid: string): Promise<string> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  const [program = '', script = ''] = text.split('\0');
  const isRunner = /^(node|bun|deno|python[\d.]*|ruby|java)$/.test(basename(program));
  const names = [program, ...(isRunner && !script.startsWith('-') ? [script] : [])];
  return (
    names
      .map((name) => basename(name))
      .join(' ')
      .trim() || 'a process'
  );
}
