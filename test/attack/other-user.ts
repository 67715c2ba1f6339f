import { type ChildProcess, spawn, spawnSync } from 'node:child_process';

/** The unprivileged user that plays the attacker. */
const NOBODY = 65534;
const OTHER = { uid: NOBODY, gid: NOBODY };

/**
 * Whether a program can be run here as another user: the superuser can, where that user can reach
 * Node.
 */
export const canBeOther =
  process.geteuid?.() === 0 &&
  spawnSync(process.execPath, ['-v'], { ...OTHER, cwd: '/' }).status === 0;

export interface Other {
  child: ChildProcess;
  /** What it printed, line by line. */
  lines(): string[];
  end(): Promise<void>;
}

/**
 * Runs a program as another user; as this one, where that is not possible. The program is a text,
 * since no file here may be theirs to read.
 */
export function asOther(program: string, args: readonly string[] = []): Other {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', ...args], {
    ...(canBeOther ? OTHER : {}),
    cwd: '/',
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const source of [child.stdout, child.stderr])
    source.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  return {
    child,
    lines: () => printed.split('\n').slice(0, -1),
    end: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
