import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { speedOf } from '../../runtime/runs/speed.ts';
import { usageOf } from '../../runtime/runs/usage-of.ts';
import { toCurrency } from '../../runtime/spending/price.ts';
import { Counter, type Family, Histogram } from './tally.ts';

/**
 * Counters of the events of this boot. They are updated as events become durable.
 *
 * 1. An event is counted once, after its commit, so the figures agree with the log.
 * 2. A piece of output costs one count by its type.
 */
export class EventTallies {
  private readonly events = new Counter('svc_events_total', 'Events in the log, by type.');
  private readonly accepted = new Counter(
    'svc_runs_accepted_total',
    'Runs that were accepted, by provider.',
  );
  private readonly ended = new Counter(
    'svc_runs_ended_total',
    'Runs that ended, by outcome and provider.',
  );
  private readonly errors = new Counter(
    'svc_run_errors_total',
    'Failed or lost attempts of runs, by code and provider.',
  );
  private readonly output = new Counter(
    'svc_output_tokens_total',
    'Tokens of answers, by provider and model.',
  );
  private readonly input = new Counter(
    'svc_input_tokens_total',
    'Tokens of prompts, by provider and model.',
  );
  private readonly cost = new Counter(
    'svc_run_cost_total',
    'Cost of runs in the configured currency, by provider and model.',
  );
  private readonly queueWait = new Histogram(
    'svc_run_queue_wait_seconds',
    'From the acceptance of a run to its first attempt.',
    WAITS_S,
  );
  private readonly firstOutput = new Histogram(
    'svc_run_time_to_first_token_seconds',
    'From the start of an attempt to its first output, by provider.',
    WAITS_S,
  );
  private readonly duration = new Histogram(
    'svc_run_duration_seconds',
    'From the acceptance of a run to its end, by outcome.',
    WAITS_S,
  );
  private readonly speed = new Histogram(
    'svc_run_output_tokens_per_second',
    'Speed of an answer after its first output, by provider.',
    SPEEDS,
  );
  private readonly commits = new Histogram(
    'svc_commit_seconds',
    'Time of one durable commit to the log.',
    COMMITS_S,
  );
  private readonly loads = new Histogram(
    'svc_engine_load_seconds',
    'Time in which the engine loaded a model.',
    WAITS_S,
  );
  private readonly crashes = new Counter(
    'svc_engine_crashes_total',
    'Deaths of the engine process.',
  );
  private readonly faults = new Counter(
    'svc_provider_faults_total',
    'Requests that a provider failed, and failed probes, by provider.',
  );
  private readonly pulls = new Counter('svc_pulls_ended_total', 'Downloads, by outcome.');

  constructor(kernel: Kernel) {
    kernel.subscribe('all', ({ type }) => this.events.add({ type }));
    kernel.commits.subscribe((ms) => this.commits.observe({}, ms / 1000));
    kernel.subscribe({ machine: 'run' }, ({ type, at }, snapshot) => this.hear(type, at, snapshot));
    kernel.subscribe({ machine: 'engine' }, ({ type }, snapshot) => {
      if (type === 'engine.exited' && snapshot.hasTag('failing')) this.crashes.add({});
      const { info } = snapshot.context;
      if (type === 'engine.model_loaded' && info !== null)
        this.loads.observe({}, info.load_ms / 1000);
    });
    kernel.subscribe({ machine: 'provider' }, ({ type }, { context }) => {
      if (FAULTS.has(type)) this.faults.add({ provider: context.provider_id });
    });
    kernel.subscribe({ machine: 'pull' }, ({ type }) => {
      const outcome = PULL_ENDS[type];
      if (outcome !== undefined) this.pulls.add({ outcome });
    });
  }

  families(): Family[] {
    return [
      this.events,
      this.accepted,
      this.ended,
      this.errors,
      this.output,
      this.input,
      this.cost,
      this.queueWait,
      this.firstOutput,
      this.duration,
      this.speed,
      this.commits,
      this.loads,
      this.crashes,
      this.faults,
      this.pulls,
    ].map((tally) => tally.family());
  }

  private hear(type: string, at: number, { context }: RunSnapshot): void {
    const { provider } = context.request;
    if (type === 'run.output_appended') {
      if (context.outputs === 1 && context.started_at !== null)
        this.firstOutput.observe({ provider }, (at - context.started_at) / 1000);
      return;
    }
    if (type === 'run.accepted') this.accepted.add({ provider });
    if (type === 'run.started' && context.attempt === 1)
      this.queueWait.observe({}, (at - context.created_at) / 1000);
    if (FAILURES.has(type)) this.errors.add({ code: context.error?.code ?? 'unknown', provider });
    if (isTerminalEvent(type)) this.end(type.slice('run.'.length), at, context);
  }

  private end(outcome: string, at: number, context: RunSnapshot['context']): void {
    const { provider, model } = context.request;
    const { input_tokens, output_tokens, cost } = usageOf(context);
    this.ended.add({ outcome, provider });
    this.duration.observe({ outcome }, (at - context.created_at) / 1000);
    this.output.add({ provider, model }, output_tokens);
    this.input.add({ provider, model }, input_tokens);
    if (cost !== null) this.cost.add({ provider, model }, toCurrency(cost));
    const speed = speedOf(context);
    if (speed !== null) this.speed.observe({ provider }, speed);
  }
}

const FAILURES: ReadonlySet<string> = new Set([
  'run.attempt_failed',
  'run.failed',
  'run.suspended',
  'run.interrupted',
]);
const FAULTS: ReadonlySet<string> = new Set(['provider.faulted', 'provider.probe_failed']);
const PULL_ENDS: Readonly<Record<string, string>> = {
  'pull.completed': 'completed',
  'pull.failed': 'failed',
  'pull.cancelled': 'cancelled',
};
const WAITS_S = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600];
const COMMITS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
