import { readdirSync, readFileSync } from 'node:fs';

/**
 * Processor time of test files with all that they start, in seconds. Wall time says little on a
 * busy machine. Linux only: elsewhere every file has null.
 *
 * 1. A process is counted when its parent has waited for it, with the children that it waited for.
 * 2. A daemon has left its parent. It counts as it was last seen, so its last moment is missing.
 */
export class ProcessorTime {
  private waited = childSeconds();
  /** The folder in the environment of each process; null: it is not ours. Empty: perhaps not. */
  private readonly folders = new Map<string, string | null>();
  /** Daemons, by pid, with their time so far. */
  private readonly daemons = new Map<string, { folder: string; seconds: number }>();
  private readonly timer: NodeJS.Timeout | null = null;
  private readonly scratch: string;

  /** `scratch`: the folder above the folders of the files. */
  constructor(scratch: string) {
    this.scratch = scratch;
    if (process.platform !== 'linux') return;
    this.timer = setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** Call it when the process of a file has ended: the time of that process. */
  ended(): number | null {
    if (this.timer === null) return null;
    const before = this.waited;
    this.waited = childSeconds();
    return this.waited - before;
  }

  /** The time of the daemons of a file, which have ended. */
  left(folder: string): number {
    const own = [...this.daemons].filter(([, daemon]) => daemon.folder === folder);
    for (const [pid] of own) this.daemons.delete(pid);
    return own.reduce((sum, [, { seconds }]) => sum + seconds, 0);
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  private look(): void {
    const running = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
    for (const pid of this.folders.keys()) if (!running.includes(pid)) this.folders.delete(pid);
    for (const pid of running) {
      const known = this.folders.get(pid);
      const folder = known || (known === null ? null : this.folderOf(pid));
      // A process that is being started has the environment of its parent: it is looked at twice.
      this.folders.set(pid, folder ?? (known === undefined ? '' : null));
      const [parent = '', own, children] = folder === null ? [] : times(pid);
      if (folder === null || own === undefined || parent === String(process.pid)) continue;
      if (!this.folders.get(parent))
        this.daemons.set(pid, { folder, seconds: own + (children ?? 0) });
    }
  }

  private folderOf(pid: string): string | null {
    const at = read(pid, 'environ').split(`${this.scratch}/`)[1];
    return at === undefined ? null : `${this.scratch}/${at.split(/[/\0]/)[0]}`;
  }
}

/** The time of all processes that this one has waited for. */
export function childSeconds(): number {
  return process.platform === 'linux' ? Number(times('self')[2]) : 0;
}

const LOOK_MS = 250;
const TICKS_PER_SECOND = 100;

/** The parent of a process, its time, and that of the children that it has waited for. */
function times(pid: string): [parent?: string, own?: number, children?: number] {
  const fields = read(pid, 'stat').split(') ').at(-1)?.split(' ') ?? [];
  if (fields.length < 15) return [];
  const seconds = (first: number) =>
    (Number(fields[first]) + Number(fields[first + 1])) / TICKS_PER_SECOND;
  return [fields[1] ?? '', seconds(11), seconds(13)];
}

function read(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    // It has ended, or belongs to another user.
    return '';
  }
}
