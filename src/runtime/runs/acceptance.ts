import { refusal } from '../../../machines/daemon/chart.ts';
import type { NewEvent } from '../../../machines/events.ts';
import type { RunCreated } from '../../../machines/run/context.ts';
import { CANCELLED_BY_DISK_FULL } from '../../../machines/run/context.ts';
import { anySignal } from '../../async/signals.ts';
import { timeoutSignal } from '../../async/timers.ts';
import type { Config } from '../../config/config.ts';
import { canContinueAnswer } from '../../config/providers/known-providers.ts';
import { withoutNull } from '../../contract/check.ts';
import type { RequestSource, RunInput, ToolNarrowing } from '../../contract/contract.ts';
import { hasCode, RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import { keepsContent } from '../../kernel/content.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Proposal, RunKey } from '../../kernel/stream.ts';
import type { Conversations } from '../conversations/conversations.ts';
import { identityOf, type MadeConversations } from '../conversations/made-conversations.ts';
import { withPreset } from '../models/alias.ts';
import type { Principal } from '../principal/principal.ts';
import { LOCAL, type Providers } from '../providers/providers.ts';
import { withPrice } from '../spending/price.ts';
import { withServedTools } from '../tools/served-tools.ts';
import { newRunId } from './ids.ts';
import type { Digests } from './keys.ts';
import { chooseRoutes, type Route, requestOf } from './route.ts';
import { notAdmittedError, withdrawnError } from './run-errors.ts';
import type { RunsOptions } from './runs.ts';

/** Accepts new runs, or throws the reason. It owns nothing: an accepted run is in the kernel. */
export class Acceptance {
  private readonly options: Omit<RunsOptions, 'pages' | 'secret'> & {
    digests: Digests;
    conversations: Pick<Conversations, 'next'>;
    made: Pick<MadeConversations, 'join'>;
  };

  constructor(options: Acceptance['options']) {
    this.options = options;
  }

  /** The id of a new run, once it is durable. */
  async begin(
    input: RunInput,
    { client, source, by }: { client: string; source: RequestSource; by: Principal },
    run_id = newRunId(),
  ): Promise<RunKey> {
    const { kernel, config, daemon } = this.options;
    const unwritable = kernel.failure ?? kernel.stalled;
    if (unwritable !== null) throw unwritable;
    // Before the daemon is ready, a configured provider may be missing.
    if (refusal(kernel.tail(daemon)) === 'not_ready') throw new SvcError('not_ready');
    if (kernel.backlog >= config.limits.pending_events)
      throw new SvcError('busy', 'The event log cannot keep up.', { retryAfterMs: RETRY_AFTER_MS });
    const { conversation, origin } = input;
    const { joins, choices: _, narrowings = [], ...asker } = source;
    const who = {
      client,
      ...(origin == null ? {} : { origin }),
      ...asker,
      ...(by.name === null ? {} : { asked_by: by.name }),
      request_digest: this.options.digests.of(identityOf(input, source)),
    };
    const admit = (whole: RunInput, facts: object, ...more: Proposal[]) =>
      this.admit(whole, { ...who, ...facts }, { run_id, by, narrowings }, ...more);
    if (joins !== undefined)
      return this.options.made.join(joins, run_id, (entry, { conversation_id, asked_by }) => {
        const isOwn = asked_by === null || asked_by === by.name;
        const turns_of = isOwn ? {} : { turns_of: [asked_by] };
        return admit(input, { conversation: conversation_id, ...turns_of }, entry);
      });
    if (conversation == null) return admit(input, {});
    return this.options.conversations.next({ ...input, conversation }, by, run_id, (turn) => {
      const { input: whole, ...facts } = turn;
      return admit(whole, withoutNull(facts));
    });
  }

  /** The request with the default options of its alias, and with the tools of servers. */
  completeInput(
    request: RunInput,
    narrowings: readonly ToolNarrowing[],
    signal: AbortSignal,
  ): Promise<RunInput> {
    const { servers, config } = this.options;
    return withServedTools(
      withPreset(request, config.alias_presets),
      { servers, narrowings },
      config.limits,
      // Most requests name no server. A timer for each would live for minutes.
      () => anySignal([signal, timeoutSignal(config.limits.tool_ms)]),
    );
  }

  /**
   * Records the run, and `more` with it. `said`: the fields of its first event beside the request.
   */
  private async admit(
    request: RunInput,
    facts: RunFacts,
    {
      run_id,
      by,
      narrowings,
    }: { run_id: RunKey; by: Principal; narrowings: readonly ToolNarrowing[] },
    ...more: Proposal[]
  ): Promise<RunKey> {
    const { kernel, daemon, config } = this.options;
    const input = await this.completeInput(request, narrowings, by.ended);
    const targets = this.targets(input);
    await this.options.budget.check(targets);
    const { placement } = this.options;
    placement.checkRoom(by.name === null ? 1 : config.limits.token_runs_percent / 100);
    const { name, concurrent } = by;
    const isBounded = name !== null && concurrent !== null;
    const elsewhere = isBounded ? await placement.runsElsewhere(name, concurrent) : [];
    this.checkShare(by, elsewhere.length);
    if (!kernel.accepts(daemon, { type: 'daemon.run_admitted', run_id }))
      throw notAdmittedError(kernel.tail(daemon));
    // A token that was revoked meanwhile admits nothing.
    by.ended.throwIfAborted();
    const recorded = kernel.append([
      { stream: run_id, event: toRunAccepted(this.options, run_id, input, targets, facts) },
      ...more,
    ]);
    by.ran();
    await awaitAcceptance(kernel, run_id, recorded);
    return run_id;
  }

  /** Throws busy, rate_limited. */
  private checkShare({ name, concurrent, others }: Principal, elsewhere: number): void {
    if (name === null) return;
    const { scheduler, config } = this.options;
    const { queue_runs, token_runs_percent } = config.limits;
    const all = scheduler.unsettledOf();
    if (all >= Math.max(1, Math.floor((queue_runs * token_runs_percent) / 100)))
      throw new SvcError('busy', `${all} runs of tokens are queued or active, as many as may be.`, {
        details: { retry_after_ms: RETRY_AFTER_MS },
      });
    const own = scheduler.unsettledOf(name) + elsewhere + others();
    if (concurrent === null || own < concurrent) return;
    throw new SvcError(
      'rate_limited',
      `The token ${name} has ${own} runs and requests in progress, as many as it may have.`,
      { details: { retry_after_ms: RETRY_AFTER_MS } },
    );
  }

  /** Throws the errors of `chooseRoutes`. */
  targets(input: RunInput): readonly [Route, ...Route[]] {
    const { config, providers } = this.options;
    return chooseRoutes(input, config, providers.settings(), (id) => providers.listed(id));
  }
}

/** The recorded fields of a request that the model does not get. */
type RunFacts = RequestSource &
  Pick<RunCreated, 'asked_by' | 'conversation' | 'continues' | 'origin' | 'turns_of'> & {
    client: string;
    request_digest: string | null;
  };

/** The first event of a run, with the limits of this moment. */
function toRunAccepted(
  {
    kernel,
    config,
    providers,
  }: { kernel: Pick<Kernel, 'clock'>; config: Config; providers: Pick<Providers, 'portFor'> },
  run_id: string,
  input: RunInput,
  [first, ...rest]: readonly [Route, ...Route[]],
  { within_ms = Number.POSITIVE_INFINITY, streams = false, ...facts }: RunFacts,
): NewEvent<RunCreated> {
  const { limits } = config;
  const now = kernel.clock.now();
  const total = Math.min(input.timeout_ms ?? limits.run_ms, within_ms);
  const kept = keepsContent(config.history);
  // A grammar would restart in the middle of its text.
  const isText = input.response_format == null && (input.tools ?? []).length === 0;
  const resumable = ({ provider }: Route) =>
    kept && (provider === LOCAL || (isText && canContinueAnswer(config.providers[provider] ?? {})));
  return {
    type: 'run.accepted',
    run_id,
    request: requestOf(input, first, providers.portFor(first)?.returns),
    ...withPrice(first, config.prices),
    ...(rest.length === 0
      ? {}
      : {
          fallbacks: rest.map((route) => ({
            ...route,
            resumable: resumable(route),
            ...withPrice(route, config.prices),
          })),
        }),
    idempotency_key: input.idempotency_key ?? null,
    ...facts,
    client: input.client ?? facts.client,
    ...(input.metadata == null ? {} : { metadata: input.metadata }),
    recovery: input.recovery ?? config.recovery,
    ...((input.ask_again ?? (config.ask_again && !streams)) ? { ask_again: true } : {}),
    resumable: resumable(first),
    ...(kept ? {} : { content: 'omitted' as const }),
    max_attempts: limits.run_attempts,
    target_attempts: limits.target_attempts,
    max_losses: limits.run_losses,
    queue_deadline_at: now + Math.min(limits.queue_ms, total),
    deadline_at: now + total,
    first_output_ms: limits.first_output_ms,
    idle_ms: limits.idle_ms,
    cancel_grace_ms: limits.cancel_grace_ms,
  };
}

/**
 * Resolves when the run is durable, but does not wait for a disk that is full or stalled. In that
 * case it refuses the run and withdraws it, so that the run does not execute later without a
 * client. Throws store_full, store_stalled, and run_unconfirmed if the log failed.
 */
async function awaitAcceptance(
  kernel: Kernel,
  run_id: RunKey,
  recorded: Promise<void>,
): Promise<void> {
  let unlisten = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      unlisten = kernel.stalls.onStall((cause) =>
        reject(cause.code === 'store_stalled' ? withdrawnError(cause) : cause),
      );
      recorded.then(resolve, reject);
    });
  } catch (error) {
    if (hasCode(error, 'store_failed', 'store_corrupt'))
      throw new SvcError('run_unconfirmed', undefined, { cause: error });
    if (kernel.stalled !== null)
      kernel
        .tryAppend(run_id, { type: 'run.cancel_requested', by: CANCELLED_BY_DISK_FULL })
        .catch(() => {});
    throw error;
  } finally {
    unlisten();
  }
}
