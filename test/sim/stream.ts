import type { RunRequest } from '../../src/contract/messages/parts.ts';
import { promptOf } from '../../src/contract/messages/parts.ts';
import { SvcError } from '../../src/errors.ts';
import type { AttemptRequest, OutputPart } from '../../src/ports/providers.ts';
import { type Answer, answerTo, astray } from './answers.ts';
import { hashOf, mix, type Random } from './random.ts';
import { callsOf } from './tools.ts';

export const troubles = [
  'early',
  'busy',
  'refused',
  'lost',
  'error',
  'truncated',
  'silent',
  'deaf',
  'foreign',
] as const;
export type Trouble = (typeof troubles)[number] | 'none';

export interface StreamOptions {
  request: AttemptRequest;
  signal: AbortSignal;
  random: Random;
  resumable: boolean;
  shift: number;
  trouble: Trouble;
  onEnd(): void;
}

/** The answer to this request without faults. Only a resumable one is the same each time. */
export function undisturbed(
  request: RunRequest,
  attempt: number,
  resumable: boolean,
  turn = turnOf(request),
): Answer {
  const salt = mix(hashOf(request.model), resumable ? request.seed : attempt);
  const { texts, token_ids } = answerTo(`${request.provider} ${promptOf(request)} ${turn}`, salt);
  const calls = request.tools?.length ? callsOf(promptOf(request), turn) : [];
  return {
    texts: [...texts, ...calls.map(() => '')],
    token_ids: resumable ? [...token_ids, ...calls.map(({ name }) => hashOf(name) % 50_000)] : [],
    calls,
  };
}

/** How many turns the model has had. */
function turnOf({ messages }: RunRequest): number {
  return messages.filter(({ role }) => role === 'assistant').length;
}

/** A streamed answer. Each part waits for the simulation. */
export class Stream implements AsyncIterableIterator<OutputPart> {
  readonly request: AttemptRequest;
  readonly trouble: Trouble;
  private readonly options: StreamOptions;
  private readonly answer: Answer;
  private readonly troubleAt: number;
  private position: number;
  private finished = 0;
  /** Parts that still come after a stop. */
  private late: number;
  private gone: Error | null = null;
  private waiting: {
    resolve(result: IteratorResult<OutputPart>): void;
    reject(error: Error): void;
  } | null = null;
  private left = false;

  constructor(options: StreamOptions) {
    const { request, random, trouble, shift } = options;
    this.options = options;
    this.request = request;
    this.trouble = trouble;
    this.answer = goingOn(request, options.resumable);
    const recorded = request.resume?.token_ids.length ?? 0;
    this.position =
      recorded === 0 ? 0 : Math.max(0, Math.min(recorded + shift, this.answer.texts.length));
    this.troubleAt =
      this.position +
      (trouble === 'early' || trouble === 'busy' || trouble === 'refused' ? 0 : random.below(6));
    this.late = random.below(3);
  }

  /** A reader waits, and a part is ready. */
  get ready(): boolean {
    if (this.waiting === null) return false;
    if (this.gone !== null) return true;
    return this.options.signal.aborted || this.left ? this.trouble !== 'deaf' : !this.isSilent;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<OutputPart>> {
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<OutputPart>> {
    this.left = true;
    return this.next();
  }

  die(error: Error): void {
    this.gone = error;
  }

  /** Delivers the next part. */
  act(): void {
    const { waiting } = this;
    this.waiting = null;
    if (waiting === null) return;
    const part = this.nextPart();
    if (part instanceof Error) waiting.reject(part);
    else
      waiting.resolve(
        part === null ? { done: true, value: undefined } : { done: false, value: part },
      );
    if (part === null || part instanceof Error) this.options.onEnd();
  }

  private get isSilent(): boolean {
    return (
      (this.trouble === 'silent' || this.trouble === 'deaf') &&
      this.position >= this.troubleAt &&
      this.finished === 0
    );
  }

  private nextPart(): OutputPart | Error | null {
    if (this.left) return null;
    if (this.gone !== null) return this.gone;
    if (this.options.signal.aborted) {
      if (this.late === 0 || this.isSilent || this.atEnd)
        return this.options.random.onceIn(2) ? null : new Error('aborted');
      this.late -= 1;
      return this.output();
    }
    if (this.trouble !== 'none' && this.position >= this.troubleAt && this.finished === 0)
      return this.inTrouble();
    return this.atEnd ? this.finish() : this.output();
  }

  private get atEnd(): boolean {
    return this.position >= this.answer.texts.length;
  }

  private output(): OutputPart {
    const { texts, calls } = this.answer;
    const textEnd = texts.length - calls.length;
    const made = calls[this.position - textEnd];
    if (made !== undefined) return this.callOf(made);
    const end = Math.min(textEnd, this.position + this.options.random.between(1, 3));
    const [text, token_ids] = [
      this.answer.texts.slice(this.position, end).join(''),
      this.answer.token_ids.slice(this.position, end),
    ];
    this.position = end;
    return { type: 'output', text, token_ids };
  }

  private callOf({ id, name, args }: Answer['calls'][number]): OutputPart {
    const token_ids = this.answer.token_ids.slice(this.position, this.position + 1);
    this.position += 1;
    return { type: 'output', kind: 'tool_call', text: args, token_ids, call: { id, name } };
  }

  /** Some providers repeat a part. */
  private finish(): OutputPart | null {
    this.finished += 1;
    if (this.finished > (this.options.random.onceIn(8) ? 2 : 1)) return null;
    return {
      type: 'finish',
      finish_reason: this.answer.calls.length > 0 ? 'tool_calls' : 'stop',
      usage: { input_tokens: 1, output_tokens: this.position },
    };
  }

  private inTrouble(): OutputPart | Error | null {
    const failure = (
      code: 'provider_unreachable' | 'provider_rejected' | 'provider_failed' | 'engine_crashed',
      retryable: boolean,
      lost = false,
    ) => new SvcError(code, 'An injected failure.', { retryable, lost });
    if (this.trouble === 'early') return failure('provider_unreachable', true);
    if (this.trouble === 'busy')
      return new SvcError('provider_busy', 'Too much to do.', {
        retryable: true,
        retryAfterMs: this.options.random.below(4000),
      });
    if (this.trouble === 'refused') return failure('provider_rejected', false);
    if (this.trouble === 'lost') return failure('engine_crashed', true, true);
    if (this.trouble === 'error') return failure('provider_failed', this.options.random.onceIn(2));
    return this.trouble === 'truncated' ? null : new TypeError('something foreign');
  }
}

/** The answer of a stream: the undisturbed one, unless it resumes from foreign tokens. */
function goingOn({ request, attempt, resume }: AttemptRequest, resumable: boolean): Answer {
  const answer = undisturbed(request, attempt, resumable);
  if (resume === null) return answer;
  const { length } = resume.token_ids;
  const isOurs =
    resume.token_ids.every((id, position) => id === answer.token_ids[position]) &&
    resume.text === answer.texts.slice(0, length).join('');
  return isOurs ? answer : astray(resume.token_ids);
}
