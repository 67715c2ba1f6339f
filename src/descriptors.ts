import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { causesOf } from './causes.ts';
import { SvcError } from './errors.ts';

/**
 * File descriptors: each open file and each connection uses one, and the system limits their
 * number.
 *
 * 1. Only the system knows whether one is free, so the check opens the null device.
 * 2. A vague error counts as a lack of descriptors only if that check fails too.
 * 3. A daemon without a free descriptor cannot respond, so a client checks it from outside.
 */

/** Why nothing can be opened now, as a sentence. Null: a descriptor is free. */
export function descriptorTrouble(): string | null {
  try {
    closeSync(openSync(devNull, 'r'));
    return null;
  } catch (error) {
    return sentence((error as NodeJS.ErrnoException).code ?? 'unknown reason');
  }
}

/** The error as descriptors_exhausted. Null: it has another cause. */
export function asExhausted(thrown: unknown): SvcError | null {
  const code = exhaustedCode(thrown);
  if (code !== null)
    return new SvcError('descriptors_exhausted', sentence(code), { cause: thrown });
  const trouble = isVague(thrown) ? descriptorTrouble() : null;
  return trouble === null
    ? null
    : new SvcError('descriptors_exhausted', trouble, { cause: thrown });
}

/**
 * Whether another process of this user has no free descriptor. One that it closes at this moment
 * counts as used. Always false outside Linux.
 */
export function hasNoneFree(pid: number): boolean {
  try {
    const limit = Number(
      /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1],
    );
    const used = readdirSync(`/proc/${pid}/fd`).filter((number) => Number(number) < limit).length;
    return used >= limit - CHANGING_MAX;
  } catch {
    return false;
  }
}

/** Descriptors that a process without free ones opens and closes for a moment. */
const CHANGING_MAX = 2;

/**
 * The limit of the process or of the machine. A read needs no disk space, so its ENOSPC means the
 * same.
 */
const EXHAUSTED = /\b(EMFILE|ENFILE|ENOSPC)\b/;
/** Errors of programs, threads and name lookups. Their codes do not show the cause. */
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
