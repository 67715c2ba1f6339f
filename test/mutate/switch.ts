/** What is on in a copy: a fault by its number, nothing, or a record of the faults that run. */
export type On = number | 'none' | 'record';

/** A file of a copy that says what is on. */
export const ON = '.on';
/** Files of a copy: the faults that have run, and the folder of each test file. */
export const RAN = '.ran';
export const FOLDERS = '.folders';

let isOnNow: ((id: number) => boolean) | null = null;

/**
 * Whether a fault of the copy in this folder is on. Planted code calls it, also in the built
 * program and in pages, so it imports nothing.
 *
 * 1. A process and a thread read once what is on.
 * 2. With `record`, each fault that runs is written down once for each folder of a test file.
 */
export function isOn(id: number, folder: string): boolean {
  if (typeof process === 'undefined') return false;
  isOnNow ??= readSwitch(folder);
  return isOnNow(id);
}

function readSwitch(folder: string): (id: number) => boolean {
  const { appendFileSync, existsSync, readFileSync } = process.getBuiltinModule('node:fs');
  const on = existsSync(`${folder}/${ON}`) ? readFileSync(`${folder}/${ON}`, 'utf8') : 'none';
  if (on !== 'record') return (id) => on === String(id);
  const seen = new Set<string>();
  return (id) => {
    const { TMPDIR, SVC_HOME, HOME } = process.env;
    const key = `${id} ${TMPDIR}`;
    if (seen.has(key)) return false;
    seen.add(key);
    const places = [TMPDIR, SVC_HOME, HOME, process.cwd(), ...process.argv];
    try {
      appendFileSync(`${folder}/${RAN}`, `${id} ${places.join(' ').replaceAll('\n', ' ')}\n`);
    } catch {
      // A restricted process cannot write it.
    }
    return false;
  };
}
