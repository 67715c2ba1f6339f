import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { causesOf } from './causes.ts';
import { SvcError } from './errors.ts';

/**
 * Descriptors: each open file and each connection takes one, and the system gives a process a limited number.
 *
 * 1. Only the system knows whether one is free, so it is asked. Asking takes no disk.
 * 2. A failure that only looks like a lack of descriptors is never reported as one.
 * 3. A process without a free one can tell nobody: the system closes each connection before the process learns of it. So a client looks.
 */

/** Why nothing can be opened now, as a sentence; null when a descriptor is free. */
export function descriptorTrouble(): string | null {
  try {
    closeSync(openSync(devNull, 'r'));
    return null;
  } catch (error) {
    return sentence((error as NodeJS.ErrnoException).code ?? 'unknown reason');
  }
}

/** What a connection, a process or a read threw because no descriptor was free, as an error of ours; null when it has another cause. */
export function asExhausted(thrown: unknown): SvcError | null {
  const code = exhaustedCode(thrown);
  if (code !== null)
    return new SvcError('descriptors_exhausted', sentence(code), { cause: thrown });
  const trouble = isVague(thrown) ? descriptorTrouble() : null;
  return trouble === null
    ? null
    : new SvcError('descriptors_exhausted', trouble, { cause: thrown });
}

/** Whether another process of this user has no descriptor free below its limit. False where the system does not tell (not Linux). */
export function hasNoneFree(pid: number): boolean {
  try {
    const limit = Number(
      /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1],
    );
    return (
      readdirSync(`/proc/${pid}/fd`).filter((number) => Number(number) < limit).length === limit
    );
  } catch {
    return false;
  }
}

/** The process has as many as its limit allows, or the whole machine has. What only reads needs no space: there ENOSPC means the same. */
const EXHAUSTED = /\b(EMFILE|ENFILE|ENOSPC)\b/;
/** A program, a thread or a name that could not be loaded for want of a descriptor: the code does not say why. */
const VAGUE = /^(ERR_|EAI_|ENOTFOUND$|MODULE_NOT_FOUND$)/;

function exhaustedCode(thrown: unknown): string | null {
  for (const { code, message } of causesOf(thrown)) {
    if (code === undefined) continue;
    const found =
      EXHAUSTED.exec(code) ?? (code === 'ERR_WORKER_INIT_FAILED' ? EXHAUSTED.exec(message) : null);
    if (found !== null) return found[0];
  }
  return null;
}

function isVague(thrown: unknown): boolean {
  return causesOf(thrown).some(({ code }) => code !== undefined && VAGUE.test(code));
}

function sentence(code: string): string {
  return `The daemon can open no more files or connections (${code}).`;
}
