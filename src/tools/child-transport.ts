import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { asGroupLeader, signalGroup } from '../home/restrained.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { Log } from '../ports/log.ts';
import { type Launch, withoutSecrets } from './launch.ts';
import { Excess, type MessageGate } from './message-gate.ts';

export interface Exit {
  exit_code: number | null;
  signal: string | null;
  /** Its last line, made harmless; null if it printed none. */
  last: string | null;
  /** Why svc ended it. */
  ended_for: string | null;
}

/** The message did not leave, so nothing was done. */
export class NotSent extends Error {}

export interface ChildOptions {
  name: string;
  launch: Launch & { command: readonly string[] };
  gate: MessageGate;
  limits: Limits;
  log: Log;
  onExit(exit: Exit): void;
}

/**
 * A tool server as a child process. Messages are lines of its stdin and stdout.
 *
 * 1. It leads a group of processes, which is killed when the server exits, and when the daemon is
 *    gone.
 * 2. All its output on stdout passes the gate. A server that exceeds a bound is killed.
 * 3. Its output on stderr goes to the log of the daemon, without its secrets.
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  private readonly options: ChildOptions;
  private child: ChildProcess | null = null;
  private readonly pieces: Buffer[] = [];
  private waiting_bytes = 0;
  private last: string | null = null;
  private endedFor: string | null = null;
  private isOver = false;

  constructor(options: ChildOptions) {
    this.options = options;
  }

  get pid(): number | null {
    return this.child?.pid ?? null;
  }

  /** Why svc ended it. Null: it did not. */
  get excess(): string | null {
    return this.endedFor;
  }

  async start(): Promise<void> {
    const { launch } = this.options;
    mkdirSync(launch.cwd, { recursive: true, mode: 0o700 });
    const { program, args, options } = asGroupLeader(launch.command, launch.env);
    const child = spawn(program, args, {
      ...options,
      cwd: launch.cwd,
      env: launch.env,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.child = child;
    for (const stream of child.stdio) stream?.on('error', () => {});
    // A process that could not start has no streams.
    child.stdout?.on('data', (bytes: Buffer) => this.take(bytes));
    if (child.stderr != null) this.logLines(child.stderr);
    child.on('exit', (code, signal) => this.noteExit(child, code, signal));
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', reject);
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.child?.stdin as Writable | null | undefined;
    if (this.isOver || stdin == null || !stdin.writable) throw new NotSent();
    this.options.gate.note(message);
    const isTaken = stdin.write(`${JSON.stringify(message)}\n`);
    if (!isTaken && stdin.writableLength > this.options.limits.mcp_message_bytes)
      this.end('it does not read its messages');
  }

  /** Asks the server to exit: the end of its input, and SIGTERM. */
  stop(): void {
    this.child?.stdin?.end();
    this.signal('SIGTERM');
  }

  kill(): void {
    this.signal('SIGKILL');
  }

  async close(): Promise<void> {
    this.stop();
  }

  private end(reason: string): void {
    this.endedFor ??= reason;
    this.options.log.warn(
      { server: this.options.name },
      `a tool server is ended: ${this.endedFor}`,
    );
    this.kill();
  }

  private take(bytes: Buffer): void {
    if (this.endedFor !== null) return;
    try {
      this.takeLines(bytes);
    } catch (thrown) {
      if (!(thrown instanceof Excess)) throw thrown;
      this.end(thrown.message);
    }
  }

  private takeLines(bytes: Buffer): void {
    let start = 0;
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, start)) {
      const rest = bytes.subarray(start, at);
      const line = this.pieces.length === 0 ? rest : Buffer.concat([...this.pieces, rest]);
      this.pieces.length = 0;
      this.waiting_bytes = 0;
      start = at + 1;
      this.takeLine(line);
    }
    if (start < bytes.length) {
      // A copy: a part of a shared buffer would keep all of it.
      this.pieces.push(Buffer.from(bytes.subarray(start)));
      this.waiting_bytes += bytes.length - start;
    }
    this.options.gate.count(bytes.length, this.waiting_bytes);
  }

  private takeLine(line: Buffer): void {
    const { gate } = this.options;
    const messages = gate.read(line);
    for (const message of messages ?? []) this.onmessage?.(message);
    if (messages !== null) return;
    gate.countUnasked();
    // More than is logged: a secret that is cut in two would not be found.
    const text = line.toString('utf8', 0, 2 * LINE_MAX);
    // The answer that it should be would be waited for in vain.
    if (/^\ufeff?\s*\{/.test(text)) throw new Excess('it sent a message that is not JSON');
    this.log(`not a message: ${text}`);
  }

  /** Waits for its last output, but not for ever: its children may keep its streams. */
  private noteExit(child: ChildProcess, exit_code: number | null, signal: string | null): void {
    const over = () => {
      if (this.isOver) return;
      this.isOver = true;
      const { last, endedFor: ended_for } = this;
      this.options.onExit({ exit_code, signal, last, ended_for });
      this.onclose?.();
    };
    child.stdio[3]?.destroy();
    child.once('close', over);
    setTimeout(over, EXIT_SEEN_MS).unref();
  }

  private signal(name: 'SIGTERM' | 'SIGKILL'): void {
    const pid = this.child?.pid;
    if (pid !== undefined && !this.isOver) signalGroup(pid, name);
  }

  private lines = 0;

  private log(line: string): void {
    const { name, launch, limits, log } = this.options;
    this.lines += 1;
    const short = oneLine(withoutSecrets(line, launch).slice(0, LINE_MAX)).trim();
    if (short === '') return;
    this.last = short.slice(0, LAST_MAX);
    if (this.lines > limits.mcp_log_lines + 1) return;
    const isTooMuch = this.lines > limits.mcp_log_lines;
    const text = isTooMuch ? 'more output of the tool server is left out' : short;
    log.debug({ server: name, pid: this.pid }, text);
  }

  private logLines(source: Readable): void {
    let begun = '';
    source.setEncoding('utf8');
    source.on('data', (text: string) => {
      const parts = (begun + text).split('\n');
      begun = (parts.pop() ?? '').slice(0, LINE_MAX);
      // Of the lines that are not logged, only the last one is needed.
      const isLogged = this.lines <= this.options.limits.mcp_log_lines;
      const last = parts.findLast((line) => line.trim() !== '') ?? '';
      for (const line of isLogged ? parts : [last]) this.log(line);
      if (!isLogged) pause(source);
    });
    source.on('end', () => this.log(begun));
  }
}

/** A server that prints without an end waits, and the daemon has time for other servers. */
function pause(source: Readable): void {
  source.pause();
  setTimeout(() => source.resume(), PAUSE_MS);
}
const PAUSE_MS = 10;

const NEWLINE = 0x0a;
const LINE_MAX = 4096;
/** Of the last line, in an error. */
const LAST_MAX = 240;
const EXIT_SEEN_MS = 500;
