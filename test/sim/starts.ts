import { isIn } from '../../machines/step.ts';
import type { Oracle, RunView } from './oracle.ts';
import { hold } from './violation.ts';

/** Providers stay within their limits, and the local engine has one model at a time. */
export function checkStart(oracle: Oracle, run: RunView): void {
  const { provider, model } = run.snapshot.context.request;
  const { places } = oracle.settings;
  // A run that retries has its slot already.
  const active = [...oracle.unfinished.values()].filter((other) => other !== run && other.working);
  const peers = active.filter((other) => other.snapshot.context.request.provider === provider);
  hold(
    'limits',
    active.length < places.total,
    () => `${run.alias} starts beside ${active.length} others, ${places.total} may be active`,
  );
  const most =
    provider === 'local' ? places.local : (places.ofProvider?.(provider) ?? places.perProvider);
  hold(
    'limits',
    peers.length < most,
    () =>
      `${run.alias} starts at ${provider} beside ${peers.map(({ alias }) => alias)}, ${most} may`,
  );
  if (provider !== 'local') return;
  const other = peers.find((peer) => peer.snapshot.context.request.model !== model);
  hold(
    'limits',
    other === undefined,
    () => `${run.alias} starts with ${model} beside ${other?.alias}`,
  );
}

/** First come, first served, for each client and provider. A run that moves there comes later. */
export function checkTurn(oracle: Oracle, run: RunView): void {
  const { client, request } = run.created;
  for (const other of oracle.unfinished.values()) {
    const { created } = other;
    if (
      !isIn(other.snapshot, 'queued') ||
      other.snapshot.context.attempt > 0 ||
      created.request.provider !== request.provider ||
      created.client !== client
    )
      continue;
    hold(
      'first-come',
      other.accepted_seq > run.accepted_seq,
      () => `${run.alias} of ${client} starts before ${other.alias}, which came first`,
    );
  }
}
