import { randomUUID } from 'node:crypto';
import { refusal } from '../../../machines/daemon/chart.ts';
import { anySignal } from '../../async/signals.ts';
import { timeoutSignal } from '../../async/timers.ts';
import type { Config } from '../../config/config.ts';
import { checkText } from '../../contract/check.ts';
import type { Asker, EmbeddingRecord, EmbedInput } from '../../contract/contract.ts';
import type { Embedding, EmbeddingSent, EmbedText } from '../../contract/embed-input.ts';
import {
  checkTexts,
  embedBytes,
  type RerankInput,
  type Reranking,
} from '../../contract/embed-input.ts';
import type { Reading, ReadOptions } from '../../contract/reading.ts';
import { asSvcError, RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey, ProviderKey } from '../../kernel/stream.ts';
import type { PassedAnswer, PassedRequest, ProviderPort, Ranking } from '../../ports/providers.ts';
import { rejectWhenStalled } from '../disk/refuse-when-stalled.ts';
import type { Asking, Outcome, Usable } from '../providers/admission.ts';
import type { Providers } from '../providers/providers.ts';
import { chooseRoutes, type Route } from '../runs/route.ts';
import { isPossible, tokensIn } from '../runs/usage-of.ts';
import type { Budget } from '../spending/budget.ts';
import { withPrice } from '../spending/price.ts';

/**
 * Answers requests for embeddings, ranks documents, reads texts, and passes requests on. It owns
 * the number of requests in progress.
 *
 * 1. None of them is a run. It can be repeated and has no pieces, so the log has no answer.
 * 2. Nothing goes to a cloud provider before the log says so. The log has no text of it.
 * 3. The number of requests, their time and the size of their answers have bounds.
 * 4. A request ends only when its provider has stopped the work.
 * 5. A cloud provider gets no request beyond the budget of the day.
 */

/** A text, or the ids of its tokens. */
export type TextToRead = ReadOptions & { of: EmbedText; model?: string | null | undefined };

export interface EmbeddingsOptions {
  kernel: Kernel;
  config: Config;
  providers: Providers;
  budget: Pick<Budget, 'enterEmbedding' | 'leaveEmbedding'>;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
}

/** The record of a request in the log, and its position. */
interface Sent extends Omit<EmbeddingSent, 'texts' | 'bytes'> {
  stream: ProviderKey;
  sent_at: number;
}

/** The work of a request, at any provider. */
interface Work<T> {
  /** All texts that the provider gets. */
  texts: readonly EmbedText[];
  /** Everything that the provider gets. Absent: the texts. */
  bytes?: number;
  purpose?: NonNullable<EmbeddingSent['purpose']>;
  /** Throws capability_missing. */
  at(
    port: ProviderPort | undefined,
    provider: string,
  ): (model: string, end: AbortSignal) => Promise<T>;
  /** Throws unless the answer has the requested content. */
  check(answer: T): void;
}

/** A request that a provider gets as the client sent it, with another name of the model. */
export interface PassedInput
  extends Pick<PassedRequest, 'path' | 'texts'>,
    Pick<EmbedInput, 'model'> {
  purpose: NonNullable<EmbeddingSent['purpose']>;
  bytes: number;
  /** The body, once the model is known. */
  bodyFor(model: string): Promise<Pick<PassedRequest, 'content_type' | 'body'>>;
  /** Sends the answer, until the signal is aborted. */
  take(answer: PassedAnswer, signal: AbortSignal): Promise<void>;
}

/** Requests of this boot. */
export interface EmbeddingCounts {
  active: number;
  answered: number;
  failed: number;
}

export class Embeddings {
  readonly counts: EmbeddingCounts = { active: 0, answered: 0, failed: 0 };
  private readonly options: EmbeddingsOptions;

  constructor(options: EmbeddingsOptions) {
    this.options = options;
  }

  /**
   * An abort stops the work. Throws busy, not_ready, daemon_stopping, capability_missing,
   * timed_out, the errors of a run's model, and those of its provider.
   */
  async embed(input: EmbedInput, asker: Asker, signal: AbortSignal): Promise<EmbeddingRecord> {
    const { texts, dimensions } = input;
    const options = dimensions == null ? {} : { dimensions };
    const { answer, provider, model } = await this.answer(input, asker, signal, {
      texts,
      at(port, id) {
        if (port?.embed === undefined) throw cannot(id, 'does not compute embeddings', 'embedding');
        if (!port.embedsTokens && texts.some((text) => typeof text !== 'string'))
          throw new SvcError(
            'capability_missing',
            `The provider ${id} takes texts, and no ids of tokens: they are of the tokenizer ` +
              'of another model.',
            {
              param: 'input',
              hint: 'Send the texts. In LangChain: check_embedding_ctx_length=False',
            },
          );
        return (name, end) => port.embed?.(name, texts, options, end) as Promise<Embedding>;
      },
      check: (embedding) =>
        checkVectors(embedding, texts.length, this.options.config.limits.embed_numbers),
    });
    return { ...answer, provider, model };
  }

  /** Also throws what the check of the documents throws. */
  async rerank(input: RerankInput, asker: Asker, signal: AbortSignal): Promise<Reranking> {
    const { query, top_n, return_documents } = input;
    const documents = input.documents.map((each) => (typeof each === 'string' ? each : each.text));
    const { limits } = this.options.config;
    checkText('query', query);
    checkTexts(documents, limits, 'documents');
    const { answer, provider, model } = await this.answer(input, asker, signal, {
      texts: [query, ...documents],
      purpose: 'reranking',
      at(port, id) {
        if (port?.rank === undefined) throw cannot(id, 'does not rank documents', 'reranking');
        return (name, end) => port.rank?.(name, query, documents, end) as Promise<Ranking>;
      },
      check({ scores }) {
        if (scores.length !== documents.length || !scores.every(Number.isFinite))
          throw badAnswerError(`${scores.length} scores for ${documents.length} documents`);
      },
    });
    const results = answer.scores
      .map((relevance_score, index) => ({ index, relevance_score }))
      .sort((a, b) => b.relevance_score - a.relevance_score)
      .slice(0, top_n ?? documents.length)
      .map((each) =>
        return_documents ? { ...each, document: { text: documents[each.index] ?? '' } } : each,
      );
    const tokens = answer.input_tokens;
    return {
      object: 'list',
      model: `${provider}/${model}`,
      results,
      ...(tokens === null ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
    };
  }

  /** How a local model reads a text. Throws as `embed` does. */
  async read({ model, ...input }: TextToRead, asker: Asker, signal: AbortSignal): Promise<Reading> {
    const { answer } = await this.answer({ model }, asker, signal, {
      texts: [input.of],
      at(port, id) {
        if (port?.read === undefined) throw readsNot(id);
        return async (name, end) => {
          const reading = (await port.read?.(name, input, end)) as Reading;
          return { reading, input_tokens: reading.tokens.length };
        };
      },
      check() {},
    });
    return answer.reading;
  }

  /** Passes a request on. The answer is streamed, and not kept. */
  async pass(input: PassedInput, asker: Asker, signal: AbortSignal): Promise<void> {
    const { path, texts, bytes, purpose, bodyFor, take } = input;
    await this.answer(input, asker, signal, {
      texts,
      bytes,
      purpose,
      at(port, id) {
        if (port?.pass === undefined) throw cannot(id, `has no path ${path}`);
        return async (model, end) => {
          const made = { path, model, texts, ...(await bodyFor(model)) };
          const request = { ...made, take: (answer: PassedAnswer) => take(answer, end) };
          return port.pass?.(request, end) as Promise<{ input_tokens: number | null }>;
        };
      },
      check() {},
    });
  }

  private async answer<T extends { input_tokens: number | null }>(
    choice: Pick<EmbedInput, 'provider' | 'model' | 'cloud'>,
    asker: Asker,
    signal: AbortSignal,
    { texts, bytes = embedBytes(texts), purpose, at, check }: Work<T>,
  ): Promise<{ answer: T; provider: string; model: string }> {
    this.checkReady();
    const { config, providers, budget } = this.options;
    const [target] = chooseRoutes(choice, config, providers.settings(), (id) =>
      providers.listed(id),
    );
    const { provider, model, cloud } = target;
    const work = at(providers.portFor({ provider, cloud }), provider);
    const { limits } = config;
    const estimated_tokens = tokensIn(embedBytes(texts));
    const late = timeoutSignal(limits.embed_ms);
    const request = `embedding_${randomUUID()}`;
    this.counts.active += 1;
    let entered = false;
    let outcome: Outcome = 'abandoned';
    try {
      await budget.enterEmbedding(request, target, estimated_tokens);
      await this.enter(provider, { request, model });
      entered = true;
      const of = { request, ...(purpose === undefined ? {} : { purpose }) };
      const size = { texts: texts.length, bytes, estimated_tokens };
      const sent = cloud ? await this.recordSent(of, target, size, asker) : null;
      budget.leaveEmbedding(request);
      const answer = await work(model, anySignal([signal, late]));
      if (sent !== null) this.recordCount(sent, answer.input_tokens);
      check(answer);
      outcome = 'answered';
      this.counts.answered += 1;
      return { answer, provider, model };
    } catch (thrown) {
      this.counts.failed += 1;
      if (signal.aborted) throw signal.reason;
      const failure = late.aborted ? tooLate(limits.embed_ms) : asFailure(thrown);
      outcome = failure;
      throw failure;
    } finally {
      if (entered) providers.recordOutcome(provider, outcome, { request, model });
      budget.leaveEmbedding(request);
      this.counts.active -= 1;
    }
  }

  /** Throws unless the provider is usable now. */
  private async enter(provider: string, asking: Asking): Promise<void> {
    const usable = await this.options.providers.enter(provider, asking);
    if (!usable.ok) throw this.refusalError(usable);
  }

  /** Throws unless the log says that the texts leave. A full or stalled disk is not waited for. */
  private async recordSent(
    of: Pick<Sent, 'request' | 'purpose'>,
    { provider, model }: Route,
    { texts, bytes, estimated_tokens }: Pick<EmbeddingSent, 'texts' | 'bytes' | 'estimated_tokens'>,
    asker: Asker,
  ): Promise<Sent> {
    const { kernel, providers, config } = this.options;
    const stream = providers.streamOf(provider);
    const price = withPrice({ provider, model }, config.prices);
    const sent = { ...of, provider, model, estimated_tokens, ...price, ...asker };
    const event = { ...sent, type: 'provider.embedding_sent', texts, bytes } as const;
    const sent_at = kernel.clock.now();
    const isRecorded =
      stream !== undefined &&
      (await rejectWhenStalled(kernel, () => kernel.tryAppend(stream, event)));
    if (stream !== undefined && isRecorded) return { ...sent, stream, sent_at };
    const usable = providers.usable(provider, model);
    throw usable.ok ? new SvcError('provider_unavailable') : this.refusalError(usable);
  }

  /** The estimate stays if the provider does not report the number. */
  private recordCount({ stream, ...sent }: Sent, input_tokens: number | null): void {
    if (input_tokens === null || !isPossible(input_tokens)) return;
    const counted = { ...sent, type: 'provider.embedding_counted', input_tokens } as const;
    // The answer does not wait. A log that cannot be written fails the daemon, which says why.
    this.options.kernel.tryAppend(stream, counted).catch(() => {});
  }

  private refusalError({ code, reason, until }: Exclude<Usable, { ok: true }>): SvcError {
    const { kernel } = this.options;
    return new SvcError(code, reason, {
      ...(until === null
        ? {}
        : { details: { retry_after_ms: Math.max(0, until - kernel.clock.now()) } }),
    });
  }

  /** A full or stalled disk is no obstacle for a local provider: nothing is recorded. */
  private checkReady(): void {
    const { kernel, daemon, config } = this.options;
    const refused = refusal(kernel.tail(daemon));
    if (refused === 'not_ready' || refused === 'daemon_stopping') throw new SvcError(refused);
    if (this.counts.active < config.limits.embeddings) return;
    throw new SvcError('busy', `${this.counts.active} embedding requests are in progress.`, {
      hint: 'Try again later, or raise the limit embeddings.',
      details: { retry_after_ms: RETRY_AFTER_MS },
    });
  }
}

function tooLate(embed_ms: number): SvcError {
  return new SvcError('timed_out', `The request took longer than ${embed_ms} ms.`, {
    hint: 'Send less, or raise the limit embed_ms.',
  });
}

/** Providers throw SvcError. */
function asFailure(thrown: unknown): SvcError {
  return asSvcError(thrown, 'provider_failed', 'The provider failed in an unexpected way.');
}

function cannot(provider: string, what: string, capability?: string): SvcError {
  return new SvcError('capability_missing', `The provider ${provider} ${what}.`, {
    param: 'model',
    hint:
      capability === undefined
        ? 'Name a model of a provider with the adapter openai-compatible or openai.'
        : `Name a model of another provider, or a local one with the capability ${capability}. ` +
          'See: svc model list --json',
  });
}

/** Only a local model is here, with its tokens. */
export function readsNot(provider: string): SvcError {
  return new SvcError('capability_missing', `The tokens of ${provider} are not known here.`, {
    param: 'model',
    hint: 'Name a local model. See: svc model list',
  });
}

function badAnswerError(what: string): SvcError {
  return new SvcError('provider_failed', `The provider sends ${what}.`, { retryable: false });
}

/** Vectors of one length, as many as there are texts. */
function checkVectors({ vectors }: Embedding, texts: number, numbersMax: number): void {
  const length = vectors[0]?.length ?? 0;
  if (vectors.length !== texts || length === 0 || vectors.some((each) => each.length !== length))
    throw badAnswerError(`${vectors.length} vectors for ${texts} texts, or of different lengths`);
  if (vectors.length * length > numbersMax)
    throw new SvcError(
      'prompt_too_large',
      `The vectors have more than ${numbersMax} numbers together.`,
      { hint: 'Send fewer texts.' },
    );
}
