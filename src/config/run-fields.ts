import { limitSpecs } from '../limits.ts';

/**
 * The numbers that a run may ask for. The contract, the flags of the command line and the presets
 * take their bounds from here.
 */

export interface NumberField {
  min: number;
  max: number;
  /** Only whole numbers. */
  whole: boolean;
  /** The flag of the command line. */
  flag: string;
}

const whole = (flag: string, min: number, max: number): NumberField => ({
  flag,
  min,
  max,
  whole: true,
});
const part = (flag: string, min: number, max: number): NumberField => ({
  flag,
  min,
  max,
  whole: false,
});

export const numberFields = {
  max_tokens: whole('max-tokens', 1, limitSpecs.output_tokens.max),
  temperature: part('temperature', 0, 2),
  top_p: part('top-p', 0, 1),
  /** More than the vocabulary of any model. 0: any token may come next. */
  top_k: whole('top-k', 0, 1_000_000),
  min_p: part('min-p', 0, 1),
  /** 1: none. */
  repeat_penalty: part('repeat-penalty', 0.1, 10),
  seed: whole('seed', 0, 2 ** 32 - 1),
  /** Of a local model: prompt and answer together. */
  context_tokens: whole(
    'context',
    limitSpecs.engine_context_tokens.min,
    limitSpecs.engine_context_tokens.max,
  ),
} as const satisfies Record<string, NumberField>;

export type NumberFieldName = keyof typeof numberFields;

/** The states of a run, by which runs are listed. The last five are its ends. */
export const RUN_STATES = [
  ...(['queued', 'starting', 'streaming', 'backoff', 'suspended', 'cancelling'] as const),
  ...(['completed', 'failed', 'cancelled', 'interrupted', 'timed_out'] as const),
] as const;

/** What a run may ask for if it is cut off. */
export const RECOVERIES = ['resume', 'restart', 'end'] as const;

/** Most texts that may end an answer. */
export const STOPS_MAX = 16;

/** The images that a run may have, by the first bytes of their file in hex. */
export const imageSignatures: Readonly<Record<string, RegExp>> = {
  'image/png': /^89504e470d0a1a0a/,
  'image/jpeg': /^ffd8ff/,
  'image/gif': /^47494638(37|39)61/,
  'image/webp': /^52494646.{8}57454250/,
};
/** Bytes of a file that its signature is in. */
export const SIGNATURE_BYTES = 18;
