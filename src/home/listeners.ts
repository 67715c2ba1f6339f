import { readdir, readFile, readlink } from 'node:fs/promises';

/** The sockets that listen at a TCP port of this machine, as `/proc` names them. */
export async function listenersAt(port: number): Promise<ReadonlySet<string>> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'latin1').catch(() => '')),
  );
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const rows = tables.flatMap((table) => table.split('\n').map((row) => row.trim().split(/\s+/)));
  return new Set(
    rows
      .filter(([, local = '', , state]) => local.endsWith(`:${hex}`) && state === LISTENS)
      .map((row) => `socket:[${row[9]}]`),
  );
}

const LISTENS = '0A';

/** Whether a process has one of the sockets. */
export async function hasSocket(
  pid: number | string,
  sockets: ReadonlySet<string>,
): Promise<boolean> {
  const files = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const links = await Promise.all(
    files.map((file) => readlink(`/proc/${pid}/fd/${file}`).catch(() => '')),
  );
  return links.some((link) => sockets.has(link));
}
