import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execute } from './execute.ts';
import { findProgram } from './peers.ts';
import type { Report } from './report.ts';

/** pm2, a daemon that is used from a command line, in a temporary folder. */
export class Pm2 {
  private readonly program: string;
  private readonly folder = mkdtempSync(join(tmpdir(), 'svc-bench-pm2-'));

  private constructor(program: string) {
    this.program = program;
  }

  /** Null, and a line in the report, where this machine has none. */
  static find(report: Report): Pm2 | null {
    const { path, how } = findProgram('pm2');
    if (path !== null) return new Pm2(path);
    report.addMissing({ way: 'pm2', how });
    return null;
  }

  /** Asks the daemon for an answer. The first call starts it. */
  ping(): void {
    this.run('ping');
  }

  kill(): void {
    this.run('kill');
  }

  /** The process of the daemon. */
  get pid(): number {
    return Number(readFileSync(join(this.folder, 'pm2.pid'), 'utf8'));
  }

  close(): void {
    this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private run(command: string): void {
    execute(process.execPath, [this.program, command], {
      ...process.env,
      HOME: this.folder,
      PM2_HOME: this.folder,
    });
  }
}
