import { hash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type DaemonContext, daemonMachine } from '../../machines/daemon.ts';
import { Cell } from '../kernel/cell.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../kernel/port.ts';
import type { EventStore } from '../store/store.ts';

/**
 * How far the stream of the present boot has come, kept in a file, so that the next start folds a short end of it: a boot that lasted for
 * months has two facts for each of its runs.
 *
 * 1. It is only a shorter way: a file that is missing, harmed, of another version of the program or of another log is not used, and the
 *    stream is folded from its beginning, to the same state.
 * 2. It is written each `every` facts of the stream, whole or not at all, one write at a time. A write that fails is no trouble but a longer way.
 */
export class BootCheckpoint {
  private readonly options: BootCheckpointOptions;
  private writing: Promise<void> | null = null;

  constructor(options: BootCheckpointOptions) {
    this.options = options;
    const { kernel, daemon, every = EVERY } = options;
    kernel.onFact(({ stream, version }) => {
      if (stream !== daemon || version % every !== 0 || this.writing !== null) return;
      const cell = kernel.cell(stream);
      if (cell !== undefined && cell.snapshot.status === 'active') this.writing = this.write(cell).finally(() => (this.writing = null));
    });
  }

  /** Resolves when no write is under way. */
  async close(): Promise<void> {
    await this.writing;
  }

  private async write({ stream, version, seq, path, since, snapshot }: Cell): Promise<void> {
    const { file, program, log } = this.options;
    const point: Point = { program, stream, version, seq, path, since, value: snapshot.value, context: snapshot.context as DaemonContext };
    const text = JSON.stringify(point);
    const draft = `${file}.${process.pid}.tmp`;
    try {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(draft, `${sum(text)} ${text}\n`, { mode: 0o600 });
      await rename(draft, file);
    } catch (error) {
      log.debug({ err: error }, 'the checkpoint of this boot was not written');
    }
  }
}

/** The cell of this stream as the file has it, with its last fact, checked against the log; undefined when the file is of no use. */
export async function readBootCheckpoint(file: string, program: string, store: Pick<EventStore, 'readStream'>, stream: string): Promise<Cell | undefined> {
  const point = parse(await readFile(file, 'utf8').catch(() => ''));
  if (point === null || point.program !== program || point.stream !== stream) return undefined;
  const [last] = await store.readStream(stream, point.version, 1);
  if (last?.version !== point.version || last.seq !== point.seq) return undefined;
  const snapshot = daemonMachine.resolveState({ value: point.value, context: point.context } as Parameters<typeof daemonMachine.resolveState>[0]);
  const { version, seq, path, since } = point;
  return Object.assign(new Cell(stream, snapshot, version), { seq, path, since, recent: [last] });
}

export interface BootCheckpointOptions {
  kernel: Kernel;
  /** Stream of the daemon. */
  daemon: string;
  file: string;
  /** Version of the program: another one may keep other things in its machine. */
  program: string;
  log: Pick<Log, 'debug'>;
  every?: number;
}

interface Point {
  program: string;
  stream: string;
  version: number;
  seq: number;
  path: string;
  since: number;
  value: unknown;
  context: DaemonContext;
}

function parse(text: string): Point | null {
  const at = text.indexOf(' ');
  const body = text.slice(at + 1, -1);
  return text.slice(0, at) === sum(body) ? (JSON.parse(body) as Point) : null;
}

function sum(text: string): string {
  return hash('sha256', text, 'hex');
}

const EVERY = 5000;
