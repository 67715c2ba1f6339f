import { hashOf, mix } from './random.ts';

/** The answer of a provider without faults: a pure function of the request, token by token. */
export interface Answer {
  token_ids: number[];
  texts: string[];
  /** The calls at its end: the last tokens, which have no text. */
  calls: { id: string; name: string; args: string }[];
}

/** Some tokens have no text: half of a character, or a mark. */
const TEXTS = [
  'a',
  'bc ',
  'é',
  '漢字',
  '',
  '\n',
  ' def',
  '"',
  '{}',
  '',
  'x',
  '🙂',
  '0',
  '\\',
  'gh',
  ' ',
];
const LONGEST = 24;

export function answerTo(prompt: string, salt: number): Answer {
  const base = mix(hashOf(prompt), salt);
  const length = (mix(base, 77) >>> 3) % (LONGEST + 1);
  const token_ids = Array.from(
    { length },
    (_, position) => (mix(base, position + 1) >>> 5) % 50_000,
  );
  return { token_ids, texts: token_ids.map(textOf), calls: [] };
}

/** What a model says after foreign tokens: something else. */
export function astray(token_ids: readonly number[]): Answer {
  const base = token_ids.reduce(mix, 0x5eed);
  const ids = [0, 1, 2].map((position) => (mix(base, position) >>> 5) % 50_000);
  return {
    token_ids: [...token_ids, ...ids],
    texts: [...token_ids.map(textOf), '<', 'astray', '>'],
    calls: [],
  };
}

export function textOf(token_id: number): string {
  return TEXTS[token_id % TEXTS.length] ?? '';
}
