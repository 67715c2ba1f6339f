import type { TokenLogprob } from '../../contract/messages/parts.ts';
import type { ReadToken } from '../../contract/reading.ts';

/** The probabilities of tokens, in the form of the older API: a list for each of their fields. */

/** A token of a prompt or of an answer. The first token of a prompt follows nothing. */
type Shown = Pick<ReadToken, 'text' | 'bytes'> & {
  logprob?: number;
  top?: readonly (Pick<ReadToken, 'text' | 'bytes'> & { logprob: number })[];
};

/** The tokens of an answer. */
export function answerTokensOf(logprobs: readonly TokenLogprob[]): Shown[] {
  return logprobs.map(({ token: text, logprob, top }) => ({
    text,
    logprob,
    top: top.map(({ token, logprob }) => ({ text: token, logprob })),
  }));
}

export interface TokenLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  /** Where each token begins in the text, in characters. */
  text_offset: number[];
}

/** Makes the lists of one choice, piece by piece. It owns how far the text has come. */
export class LogprobLists {
  private readonly decoder = new TextDecoder();
  private at: number;

  /** `before`: characters of the first tokens that the text does not have, such as `<bos>`. */
  constructor(before = 0) {
    this.at = -before;
  }

  /** `tokens`: those that follow the ones before. */
  toLists(tokens: readonly Shown[]): TokenLogprobs {
    return {
      tokens: tokens.map(spellToken),
      token_logprobs: tokens.map(({ logprob = null }) => logprob),
      top_logprobs: tokens.map(likeliestOf),
      text_offset: tokens.map((token) => this.pass(token)),
    };
  }

  /** Where the token begins. A part of a character has no length before its last part. */
  private pass({ text, bytes }: Shown): number {
    const { at } = this;
    const sent = Buffer.from(bytes ?? Buffer.from(text));
    for (const _ of this.decoder.decode(sent, { stream: true })) this.at += 1;
    return Math.max(0, at);
  }
}

/** The likeliest tokens, and the token itself, as OpenAI has it. */
function likeliestOf(token: Shown): Record<string, number> | null {
  const { logprob, top = [] } = token;
  if (logprob === undefined) return null;
  const own = { ...token, logprob };
  const shown = top.some(({ text, bytes }) => spellToken({ text, bytes }) === spellToken(token));
  const all = shown ? top : [...top, own];
  return Object.fromEntries(all.map((each) => [spellToken(each), each.logprob]));
}

/** A part of a character as its bytes, as OpenAI spells it: `bytes:\xe2\x82`. */
function spellToken({ text, bytes }: { text: string; bytes?: number[] | undefined }): string {
  if (bytes === undefined) return text;
  return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}
