import { type Config, loadConfig } from '../../src/config/config.ts';
import type { ProviderConfig } from '../../src/config/providers/provider.ts';
import type { SchedulerOptions } from '../../src/runtime/runs/scheduler.ts';
import { providerConfig } from '../helpers/provider-config.ts';
import type { Random } from './random.ts';

/** Drawn once for each simulation: the limits of the daemon, and the faults. */
export interface Settings {
  config: Config;
  places: SchedulerOptions['concurrency'];
  faults: Faults;
  clients: number;
}

/** The weight of each fault against ordinary steps; 0: never. */
export interface Faults {
  crash: number;
  stop: number;
  force: number;
  append: number;
  full: number;
  engine: number;
  stale: number;
  /** One effect in this many is lost or handled twice. */
  lostEffectIn: number;
  doubleEffectIn: number;
  /** One stream of a provider in this many has trouble. */
  troubleIn: number;
  /** One attempt in this many is not let in. */
  passedOverIn: number;
  /** One answer to a client in this many is lost. */
  lostAnswerIn: number;
  /** The weight of the disk against everything else. */
  disk: number;
}

const base = loadConfig('/nonexistent/svc/config.json', { env: {} });
const provider = (kind: ProviderConfig['kind'], max_runs: number | null): ProviderConfig =>
  providerConfig({ kind, model: 'm1', max_runs });

export function drawSettings(random: Random): Settings {
  const limits = {
    ...base.limits,
    queue_runs: random.between(2, 14),
    active_runs: random.between(1, 6),
    provider_runs: random.between(1, 4),
    local_runs: random.between(1, 3),
    run_attempts: random.between(1, 3),
    run_losses: random.below(6),
    target_attempts: random.between(1, 3),
    target_wait_ms: random.between(1, 10) * 1000,
    queue_ms: random.between(20, 90) * 1000,
    run_ms: random.between(30, 200) * 1000,
    first_output_ms: random.between(3, 20) * 1000,
    idle_ms: random.between(2, 10) * 1000,
    cancel_grace_ms: random.between(1, 4) * 500,
    start_ms: 60_000,
    drain_ms: random.below(8) * 1000,
    close_ms: 10_000,
    recover_runs: random.pick([1, 2, 500]),
    commit_events: random.pick([1, 2, 8, 4096]),
    publish_events: random.pick([1, 2, 8, 64]),
    pending_events: random.pick([16, 64, 65_536]),
    output_buffer_bytes: random.pick([1, 16, 4096]),
  };
  const near = random.onceIn(2) ? null : random.between(1, 2);
  const providers = { near: provider('local', near), far: provider('cloud', 1) };
  const config: Config = {
    ...base,
    limits,
    providers,
    model: 'm1',
    recovery: random.pick(['resume', 'resume', 'resume', 'restart', 'end']),
  };
  const places = {
    total: limits.active_runs,
    perProvider: limits.provider_runs,
    local: limits.local_runs,
    ofProvider: (id: string) => config.providers[id]?.max_runs ?? undefined,
  };
  return { config, places, faults: drawFaults(random), clients: random.between(1, 4) };
}

/** Each simulation has only some faults, so that later ones are reached too. */
function drawFaults(random: Random): Faults {
  const some = (weight: number) => (random.onceIn(2) ? 0 : weight);
  const rare = (weight: number) => (random.onceIn(4) ? weight : 0);
  return {
    crash: some(random.between(1, 8)),
    stop: some(2),
    force: some(1),
    append: rare(4),
    full: rare(4),
    engine: some(12),
    stale: some(30),
    lostEffectIn: rare(12),
    doubleEffectIn: rare(6),
    troubleIn: random.pick([0, 0, 3, 6]),
    passedOverIn: random.pick([0, 2, 5]),
    lostAnswerIn: random.pick([0, 0, 4]),
    disk: random.pick([30, 120, 240]),
  };
}

export const noFaults: Faults = {
  crash: 0,
  stop: 0,
  force: 0,
  append: 0,
  full: 0,
  engine: 0,
  stale: 0,
  lostEffectIn: 0,
  doubleEffectIn: 0,
  troubleIn: 0,
  passedOverIn: 0,
  lostAnswerIn: 0,
  disk: 60,
};
