import type { NewEvent, RunCreated } from '../../../machines/events.ts';
import type { Config } from '../../config/config.ts';
import { keepsContent } from '../../kernel/content.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Asked, RunInput } from '../contract.ts';
import { LOCAL } from '../providers/providers.ts';
import { type Route, requestOf } from './route.ts';

/** What is recorded of a request beside what the model is asked. */
export type Said = Asked &
  Pick<RunCreated, 'conversation' | 'continues' | 'origin'> & {
    client: string;
    request_digest: string | null;
  };

/** The first event of a run, with the limits of this moment. */
export function acceptedRun(
  { kernel, config }: { kernel: Pick<Kernel, 'clock'>; config: Config },
  run_id: string,
  input: RunInput,
  [first, ...rest]: readonly [Route, ...Route[]],
  { within_ms = Number.POSITIVE_INFINITY, ...said }: Said,
): NewEvent<RunCreated> {
  const { limits } = config;
  const now = kernel.clock.now();
  const total = Math.min(input.timeout_ms ?? limits.run_ms, within_ms);
  const kept = keepsContent(config.history);
  const resumable = ({ provider }: Route) => provider === LOCAL && kept;
  return {
    type: 'run.accepted',
    run_id,
    request: requestOf(input, first),
    ...(rest.length === 0
      ? {}
      : { fallbacks: rest.map((route) => ({ ...route, resumable: resumable(route) })) }),
    idempotency_key: input.idempotency_key ?? null,
    ...said,
    client: input.client ?? said.client,
    ...(input.metadata == null ? {} : { metadata: input.metadata }),
    recovery: input.recovery ?? config.recovery,
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
