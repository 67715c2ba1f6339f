import { spawnSync } from 'node:child_process';

/** Runs a command whose system calls fail as this says. */
export const inject = (fault: string): string[] => [
  'strace',
  '-f',
  '-qqq',
  '-e',
  `trace=${fault.split(':')[0]}`,
  '-e',
  'signal=none',
  '-o',
  '/dev/null',
  '-e',
  `inject=${fault}`,
];

/** Where there is no strace, or it may not trace, faults of the disk cannot be tried. */
export const possible =
  spawnSync('strace', [...inject('fsync:error=EIO').slice(1), 'true']).status === 0;
