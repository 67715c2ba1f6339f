import { duration } from '../terminal/print/format.ts';

/**
 * The status line for a user who waits for an answer. A terminal rewrites it in place.
 *
 * 1. The line is a function of the facts so far and of the time.
 * 2. A short wait shows nothing. The time of a wait begins when the answer does not move.
 * 3. After the first text only a lost daemon is shown: a line in the middle would tear the answer.
 */

export interface FailedAttempt {
  provider: string;
  message: string;
  attempt: number;
  /** Attempts that the run has. Null: unknown. */
  attempts_max: number | null;
  wait_ms: number;
}

/** The reason for the wait, from the events of a run and of its connection. */
export type Fact =
  /** No daemon ran, so one is started. */
  | { type: 'starting' }
  | { type: 'accepted'; provider: string }
  | { type: 'placed'; position: number }
  /** The provider is called. */
  | { type: 'started'; provider: string }
  /** `part` of its model is in memory, from 0 to 1. */
  | { type: 'loading'; model: string; part: number }
  | ({ type: 'failed' } & FailedAttempt)
  /** Text has come that is shown later. */
  | { type: 'collecting' }
  | { type: 'lost' }
  | { type: 'connected' }
  /** Text has come and is shown. */
  | { type: 'answering' }
  /** The server of a tool reports the progress of a call. */
  | { type: 'reported'; text: string }
  /** The tools that the model called have lines of their own, and questions. */
  | { type: 'calling' }
  | { type: 'ended' };

type Wait = Exclude<Fact, { type: 'accepted' | 'connected' | 'answering' | 'calling' | 'ended' }>;

export interface Progress {
  /** Null: nothing is waited for. */
  wait: Wait | null;
  /** When the answer stopped moving, and when this kind of wait began: monotonic, in ms. */
  since: number;
  step_since: number;
  /** The provider that is called. */
  provider: string | null;
  /** Text is shown. */
  answering: boolean;
}

export const idle: Progress = {
  wait: null,
  since: 0,
  step_since: 0,
  provider: null,
  answering: false,
};

/** A shorter wait needs no words. */
const SHOWN_AFTER_MS = 300;

export function progressAfter(progress: Progress, fact: Fact, now: number): Progress {
  switch (fact.type) {
    case 'accepted':
    case 'started': {
      const { provider } = fact;
      return withWait({ ...progress, provider }, { type: 'started', provider }, now);
    }
    case 'failed':
      return withWait({ ...progress, provider: fact.provider }, fact, now);
    case 'starting':
    case 'placed':
    case 'loading':
    case 'reported':
    case 'collecting':
    case 'lost':
      return withWait(progress, fact, now);
    case 'connected': {
      if (progress.wait?.type !== 'lost' && progress.wait?.type !== 'starting') return progress;
      const { provider } = progress;
      if (provider === null) return { ...progress, wait: null };
      return withWait(progress, { type: 'started', provider }, now);
    }
    case 'answering':
      return { ...progress, wait: null, answering: true };
    case 'calling':
      return { ...progress, wait: null, provider: null };
    case 'ended':
      return { ...progress, wait: null };
    default:
      return fact satisfies never;
  }
}

function withWait(progress: Progress, wait: Wait, now: number): Progress {
  if (progress.answering && wait.type !== 'lost') return { ...progress, wait: null };
  const isFirst = progress.wait === null;
  const isNew = progress.wait?.type !== wait.type || wait.type === 'failed';
  return {
    ...progress,
    wait,
    since: isFirst ? now : progress.since,
    step_since: isNew ? now : progress.step_since,
  };
}

/** The line to show. Null: none. */
export function progressText({ wait, since, step_since }: Progress, now: number): string | null {
  if (wait === null || now - since < SHOWN_AFTER_MS) return null;
  const waited = now - step_since;
  if (wait.type === 'failed') {
    // The reason is last: a terminal may cut it.
    const { when, why } = retryOf(wait, Math.ceil((wait.wait_ms - waited) / 1000) * 1000);
    return `${when}: ${why}`;
  }
  const seconds = Math.floor(waited / 1000);
  const elapsed = seconds === 0 ? '' : ` · ${duration(seconds * 1000)}`;
  return `${WORDS[wait.type](wait as never)}${elapsed}`;
}

/** Why an attempt failed, and when the next one begins. */
export function retryOf(
  { provider, message, attempt, attempts_max }: FailedAttempt,
  left_ms: number,
): { why: string; when: string } {
  const when = left_ms <= 0 ? 'Trying again' : `Trying again in ${duration(left_ms)}`;
  const count = attempts_max === null ? '' : ` (${attempt + 1} of ${attempts_max})`;
  return { why: prefixProvider(provider, message), when: `${when}${count}` };
}

/** The message of a provider, with its name. */
export function prefixProvider(provider: string, reason: string): string {
  const sentence = reason.replace(/\.$/, '');
  return sentence.startsWith(provider) ? sentence : `${provider}: ${sentence}`;
}

function percent(part: number): number {
  return Math.floor(part * 100);
}

export const LOST = 'The daemon is gone; waiting for it to come back.';

const WORDS: {
  readonly [T in Exclude<Wait['type'], 'failed'>]: (wait: Extract<Wait, { type: T }>) => string;
} = {
  starting: () => 'Waiting for the daemon to be ready',
  placed: ({ position }) => `Waiting in the queue, place ${position}`,
  started: ({ provider }) => `Waiting for the first token of ${provider}`,
  // The process of the engine starts first.
  loading: ({ model, part }) => `Loading ${model}${part === 0 ? '' : `, ${percent(part)} %`}`,
  reported: ({ text }) => `The tool says: ${text}`,
  collecting: () => 'Receiving the answer',
  lost: () => LOST,
};
