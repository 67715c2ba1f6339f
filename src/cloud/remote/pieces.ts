import type { CallName, Opaque, OutputKind, TokenLogprob } from '../../contract/messages/parts.ts';
import { REDACTED } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../../ports/providers.ts';
import { KEY_PLACE, KeyFilter } from './echoed-key.ts';
import { tooLarge } from './failure.ts';

export type Output = Extract<OutputPart, { type: 'output' }>;
type Kind = OutputKind | 'text';

/**
 * The output of one answer. It owns the pieces that are not taken yet.
 *
 * 1. Size and number of the parts have bounds, whatever their kind.
 * 2. Pieces of one kind in a row are one output until it is taken: pieces that come together are
 *    recorded together. A piece with probabilities stays alone, and so does the beginning of a
 *    call.
 * 3. No output ends inside a character. Some servers split a surrogate pair over two events, and on
 *    disk each half would be lost. Pieces of several texts may alternate.
 * 4. No output has the key of the provider, also if its pieces come one by one.
 */
export class Pieces {
  private readonly limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>;
  private readonly key: string | null;
  /** By the text that it filters. */
  private readonly filters = new Map<string, { filter: KeyFilter; kind: Kind; call?: CallName }>();
  private outputs: Output[] = [];
  /** The first half of a character, by the text that it ends. */
  private readonly halves = new Map<string, { half: string; kind: Kind; call?: CallName }>();
  /** Probabilities of tokens whose text has not come yet. */
  private logprobs: TokenLogprob[] = [];
  private bytes = 0;
  private parts = 0;
  private lastKind: Kind | null = null;

  constructor(
    limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>,
    key: string | null,
  ) {
    this.limits = limits;
    this.key = key;
  }

  /** The outputs since the last call, in order. */
  take(): readonly Output[] {
    if (this.outputs.length === 0) return NONE;
    const taken = this.outputs;
    this.outputs = [];
    return taken;
  }

  /** Adds text of the answer, reasoning, a refusal, or arguments of a call. */
  add(kind: Kind, delta: string, call?: CallName): void {
    this.count(delta);
    if (kind !== 'tool_call' && kind !== this.lastKind) {
      this.endFilters();
      this.addPart(kind);
    }
    const text = this.takeWhole(kind, delta, call);
    this.push(kind, this.key === null ? text : this.withoutKey(text, kind, call), call);
  }

  begin(call: CallName, opaque?: Opaque): void {
    this.endFilters();
    this.count(call.name);
    this.addPart('tool_call');
    const own = opaque !== undefined && this.mayKeep(opaque) ? { opaque } : {};
    const output = { type: 'output', kind: 'tool_call', text: '', call, ...own } as const;
    this.outputs.push({ ...output, token_ids: [] });
  }

  /** Ends a part with the data that the provider must get back. */
  addOpaque(kind: Kind, opaque: Opaque, call?: CallName): void {
    if (!this.mayKeep(opaque)) return;
    if (kind !== 'tool_call') {
      this.end();
      if (opaque.form === REDACTED || kind !== this.lastKind) this.addPart(kind);
      this.lastKind = null;
    }
    this.outputs.push({
      type: 'output',
      text: '',
      token_ids: [],
      ...(kind === 'text' ? {} : { kind }),
      ...(call === undefined ? {} : { call }),
      opaque,
    });
  }

  /** The key of the provider is never in it. Throws stream_oversized. */
  private mayKeep({ form, data }: Opaque): boolean {
    this.count(data, Buffer.byteLength(form));
    return this.removeKey(data) === data;
  }

  addLogprobs(logprobs: readonly TokenLogprob[]): void {
    for (const logprob of logprobs) {
      this.count(logprob.token, TOKEN_BYTES);
      for (const { token } of logprob.top) this.count(token, NUMBER_BYTES);
      this.logprobs.push(logprob);
    }
  }

  /** Adds the halves that no other half followed. */
  end(): void {
    for (const { half, kind, call } of this.halves.values())
      this.push(kind, half.toWellFormed(), call);
    this.halves.clear();
    this.endFilters();
  }

  /** A text that came whole. */
  removeKey(text: string): string {
    const filter = KeyFilter.of(this.key);
    return filter === null ? text : filter.take(text) + filter.end();
  }

  private withoutKey(text: string, kind: Kind, call?: CallName): string {
    const name = textName(kind, call);
    const filter = this.filters.get(name)?.filter ?? KeyFilter.of(this.key);
    if (filter === null) return text;
    if (!this.filters.has(name))
      this.filters.set(name, { filter, kind, ...(call === undefined ? {} : { call }) });
    const shown = filter.take(text);
    // The probabilities of tokens would spell the key.
    if (filter.isWaiting || shown.includes(KEY_PLACE)) this.logprobs = [];
    return shown;
  }

  /** Adds the text that still waits. The text continues with another part, or not at all. */
  private endFilters(): void {
    for (const { filter, kind, call } of this.filters.values()) this.push(kind, filter.end(), call);
    this.filters.clear();
  }

  /** Adds the probabilities that no text followed. */
  endLogprobs(): void {
    this.push('text', '');
  }

  private push(kind: Kind, text: string, call?: CallName): void {
    const hasLogprobs = kind === 'text' && this.logprobs.length > 0;
    if (text === '' && !hasLogprobs) return;
    const last = this.outputs.at(-1);
    if (last !== undefined && !hasLogprobs && continues(last, kind, call)) {
      last.text += text;
      return;
    }
    this.outputs.push({
      type: 'output',
      text,
      token_ids: [],
      ...(kind === 'text' ? {} : { kind }),
      ...(call === undefined ? {} : { call }),
      ...(hasLogprobs ? { logprobs: this.logprobs } : {}),
    });
    if (hasLogprobs) this.logprobs = [];
  }

  /** The text without half a character at its end. That half waits for the other one. */
  private takeWhole(kind: Kind, delta: string, call?: CallName): string {
    if (this.halves.size === 0 && !endsInHalf(delta)) return delta.toWellFormed();
    const name = textName(kind, call);
    const text = (this.halves.get(name)?.half ?? '') + delta;
    this.halves.delete(name);
    if (!endsInHalf(text)) return text.toWellFormed();
    this.halves.set(name, { half: text.slice(-1), kind, ...(call === undefined ? {} : { call }) });
    return text.slice(0, -1).toWellFormed();
  }

  private addPart(kind: Kind): void {
    const { provider_answer_parts: partsMax } = this.limits;
    this.lastKind = kind;
    this.parts += 1;
    if (this.parts > partsMax)
      throw new SvcError(
        'stream_oversized',
        `The provider sends more than ${partsMax} parts in one answer.`,
        { retryable: false },
      );
  }

  /** Counts what waits or is added. Throws stream_oversized. */
  count(text: string, more = 0): void {
    const { provider_answer_bytes: bytesMax } = this.limits;
    this.bytes += Buffer.byteLength(text) + more;
    if (this.bytes > bytesMax) throw tooLarge('an answer', bytesMax);
  }
}

function textName(kind: Kind, call?: CallName): string {
  return call === undefined ? kind : `call ${call.id}`;
}

const NONE: readonly Output[] = [];
/** A probability in the log, about. */
const NUMBER_BYTES = 16;
/** The same with its list of likely tokens. A token may have no text. */
const TOKEN_BYTES = 64;

function continues({ kind, call, text, logprobs, opaque }: Output, next: Kind, of?: CallName) {
  return (
    (kind ?? 'text') === next &&
    call?.id === of?.id &&
    text !== '' &&
    (logprobs ?? opaque) === undefined
  );
}

function endsInHalf(text: string): boolean {
  const code = text.charCodeAt(text.length - 1);
  return code >= 0xd800 && code <= 0xdbff;
}
