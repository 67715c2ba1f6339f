import { compilePattern } from '../pattern.ts';
import type { SettingSpec } from './layers.ts';
import { nullText, readWhole, wholeText } from './value.ts';

/** Retention and content of the event log. */
export interface HistorySettings {
  /** Null: for ever. */
  keep_days: number | null;
  /** Null: no limit. */
  keep_bytes: number | null;
  prompts: 'keep' | 'omit';
  outputs: 'keep' | 'omit';
  /** Regular expressions. */
  redact: string[];
}

const PATTERNS_MAX = 8;
const PATTERN_CHARS_MAX = 200;
const MIB = 1024 * 1024;

const keepOrOmit = {
  expects: 'keep or omit',
  read: (value: unknown) => (['keep', 'omit'] as const).find((choice) => choice === value),
};

export const historySpecs: {
  readonly [K in keyof HistorySettings]: SettingSpec<HistorySettings[K]>;
} = {
  keep_days: {
    live: 'daemon',
    env: 'SVC_HISTORY_KEEP_DAYS',
    default: 30,
    meaning: 'Days that a finished run and its idempotency key are kept; null: for ever.',
    expects: 'a whole number from 1 to 36500, or null',
    read: (value) => (value === null ? null : readWhole(value, 1, 36_500)),
    fromText: (text) => nullText(wholeText(text)),
  },
  keep_bytes: {
    live: 'daemon',
    env: 'SVC_HISTORY_KEEP_BYTES',
    default: 1024 * MIB,
    meaning:
      'Size of the event log above which finished runs are removed: ' +
      'large ones, then the oldest of the provider that uses most; null: no limit.',
    expects: `a whole number from ${MIB} to ${1_048_576 * MIB}, or null`,
    read: (value) => (value === null ? null : readWhole(value, MIB, 1_048_576 * MIB)),
    fromText: (text) => nullText(wholeText(text)),
  },
  prompts: {
    env: 'SVC_HISTORY_PROMPTS',
    default: 'keep',
    meaning:
      'omit: prompts and system texts are not written to disk. ' +
      'A run that is cut off then ends as interrupted.',
    ...keepOrOmit,
  },
  outputs: {
    env: 'SVC_HISTORY_OUTPUTS',
    default: 'keep',
    meaning: 'omit: answers are not written to disk, with the same effect.',
    ...keepOrOmit,
  },
  redact: {
    env: 'SVC_HISTORY_REDACT',
    default: [],
    meaning:
      'Regular expressions. What they match in prompts, answers and error messages is not ' +
      'written to disk, with the same effect.',
    expects: [
      `a list of at most ${PATTERNS_MAX} regular expressions`,
      `of at most ${PATTERN_CHARS_MAX} characters:`,
      'no look-around, no back-references, no repetition above 16',
    ].join(' '),
    read: readPatterns,
    fromText: readList,
    // A pattern may spell the secret that it removes.
    toShown: ({ length }) => (length === 0 ? [] : `${length} (not shown)`),
  },
};

function readPatterns(value: unknown): string[] | undefined {
  if (!Array.isArray(value) || value.length > PATTERNS_MAX) return undefined;
  return value.every(isPattern) ? value : undefined;
}

/** A pattern that matches the empty text would match everywhere. */
function isPattern(value: unknown): value is string {
  if (typeof value !== 'string' || value === '' || value.length > PATTERN_CHARS_MAX) return false;
  try {
    return !compilePattern(value).test('');
  } catch {
    return false;
  }
}

/** A variable holds the list as JSON. */
function readList(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
