import { statSync } from 'node:fs';
import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import type { EngineInfo } from '../../../machines/engine.ts';
import type { Failure } from '../../../machines/events.ts';
import { shownTarget } from '../../../machines/failover.ts';
import { circuitOf } from '../../../machines/provider/circuit.ts';
import type { RunContext } from '../../../machines/run/context.ts';
import { stateName } from '../../../machines/step.ts';
import type { Attention } from '../../contract/attention.ts';
import type { Target } from '../../contract/events.ts';
import { gpuWarning } from '../../contract/loaded-models.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey, EngineKey, ProviderKey } from '../../kernel/stream.ts';
import type { Log } from '../../ports/log.ts';
import { speedOf } from '../../runtime/runs/speed.ts';

/**
 * Writes the lines of the log that report events.
 *
 * 1. A line follows the commit of its event, so each line is about a recorded event.
 * 2. A run has two lines, and one more for each attempt that failed.
 * 3. A failure is in one line. It has the code of the error and no stack.
 */
export function logEvents(kernel: Kernel, daemon: DaemonKey, log: Log): void {
  logRuns(kernel, log);
  logEngines(kernel, log);
  logProviders(kernel, log);
  logPulls(kernel, log);
  kernel.subscribe({ stream: daemon }, ({ type, at, data }, snapshot) => {
    switch (type) {
      case 'daemon.runs_recovered':
        return logRecovered(log, data);
      case 'daemon.store_filled':
        return log.warn({}, 'the disk is full: new runs are refused until it has space');
      case 'daemon.store_freed':
        return log.info({}, 'the disk has space again: runs are accepted');
      case 'daemon.history_pruned':
        return log.info(
          {},
          `history was removed: ${count(Number(data.runs), 'run')}, ` +
            `${count(Number(data.events), 'event')}`,
        );
      case 'daemon.stop_requested':
        return log.info({}, stoppingText(data, snapshot, at));
    }
  });
}

function logRecovered(log: Log, { queued, suspended = 0, ended }: Record<string, unknown>): void {
  const waiting = Number(queued) + Number(suspended);
  if (waiting + Number(ended) === 0) return;
  const lost = Number(ended) === 0 ? '' : `, ${count(Number(ended), 'run')} ended as interrupted`;
  log.info({}, `recovered: ${count(waiting, 'run')} of the last boot to continue${lost}`);
}

function stoppingText(
  { by, mode, drain_deadline_at }: Record<string, unknown>,
  { context }: DaemonSnapshot,
  at: number,
): string {
  const head = `stopping, asked by ${by}`;
  if (context.unsettled === 0) return head;
  const runs = count(context.unsettled, 'run');
  if (mode === 'force') return `${head}: ${runs} cut off at once`;
  const rest = by === 'signal' ? '; a second signal stops it at once' : '';
  return `${head}: draining ${runs}, for ${seconds(Number(drain_deadline_at) - at)} at most${rest}`;
}

/** States in which a provider takes no run. */
const DOWN: ReadonlySet<string> = new Set(['unavailable', 'unauthorised', 'rate_limited']);

/**
 * Logs when a model or a provider goes down, and when it is up again. It owns the set of those that
 * are down.
 */
function logProviders(kernel: Kernel, log: Log): void {
  const down = new Map<ProviderKey, string>();
  kernel.subscribe({ machine: 'provider' }, ({ type, stream, data }, snapshot) => {
    const { provider_id, error, circuits } = snapshot.context;
    const failed =
      type === 'provider.faulted' ? circuitOf(circuits, String(data.model)) : undefined;
    if (failed?.openings === 1)
      log.warn(
        { code: failed.error.code },
        `model ${provider_id}/${failed.model} is not asked for a while: ${failed.error.message}`,
      );
    const state = stateName(snapshot);
    const before = down.get(stream);
    if (type === 'provider.removed') down.delete(stream);
    else if (DOWN.has(state) && before !== state) {
      down.set(stream, state);
      log.warn(
        { code: error?.code },
        `provider ${provider_id} is ${state.replace('_', ' ')}: ` +
          `${error?.message ?? 'no reason is known'}`,
      );
    } else if (state === 'available' && down.delete(stream))
      log.info({}, `provider ${provider_id} is available again`);
  });
}

function logPulls(kernel: Kernel, log: Log): void {
  kernel.subscribe({ machine: 'pull' }, ({ type, at, data }, { context }) => {
    const { reference, bytes, error, requested_at } = context;
    const took = seconds(at - requested_at);
    switch (type) {
      case 'pull.requested':
        return log.info({}, `pull of ${reference} started`);
      case 'pull.completed':
        return log.info({}, `pull of ${reference} completed in ${took}: ${mebibytes(bytes)}`);
      case 'pull.cancelled':
        return log.info(
          {},
          `pull of ${reference} cancelled after ${took}: ${mebibytes(bytes)} are kept`,
        );
      case 'pull.attempt_failed':
        return log.warn(
          { code: error?.code },
          `pull of ${reference} resumes in ${seconds(Number(data.retry_at) - at)}: ` +
            `${error?.message}`,
        );
      case 'pull.failed':
        return log.warn({ code: error?.code }, `pull of ${reference} failed: ${error?.message}`);
    }
  });
}

const REASONS: Readonly<Record<string, string>> = {
  idle: 'it had no work',
  room: 'another model needs its memory',
  model_changed: 'it starts again with other threads',
  requested: 'a client requested it',
};

/**
 * Logs what models are in memory: loaded, left, died. It owns the model of each engine that lives,
 * and why it was asked to stop: the machine forgets both.
 */
function logEngines(kernel: Kernel, log: Log): void {
  const live = new Map<EngineKey, { model: string; reason: string | null }>();
  kernel.subscribe({ machine: 'engine' }, ({ type, stream, data }, snapshot) => {
    const { info, error } = snapshot.context;
    const known = live.get(stream);
    switch (type) {
      case 'engine.load_requested':
        return void live.set(stream, { model: String(data.model), reason: null });
      case 'engine.model_loaded': {
        if (info === null) return;
        const warning = gpuWarning(info);
        if (warning !== null) log.warn({}, warning);
        return log.info({}, loadedText(info));
      }
      case 'engine.load_failed': {
        const { code, message } = data.error as Failure;
        return log.warn({ code }, `model ${known?.model} could not be loaded: ${message}`);
      }
      case 'engine.stop_requested':
        if (known !== undefined) known.reason = REASONS[String(data.reason)] ?? null;
        return;
      case 'engine.exited': {
        live.delete(stream);
        const model = known?.model ?? 'no model';
        if (snapshot.hasTag('failing'))
          log.warn({ code: error?.code }, `the engine of ${model} died: ${causeOfDeath(data)}`);
        else if (known?.reason != null) log.info({}, `model ${model} left memory: ${known.reason}`);
      }
    }
  });
}

function loadedText({
  model,
  path,
  load_ms,
  threads,
  context_length,
  gpu_layers = 0,
  attention,
}: EngineInfo): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  const parts = [
    ...(size === undefined ? [] : [mebibytes(size)]),
    ...(threads === undefined ? [] : [count(threads, 'thread')]),
    ...(context_length === undefined ? [] : [`${context_length} tokens of context`]),
    ...(attention === undefined ? [] : cacheOf(attention)),
    ...(gpu_layers > 0 ? [`${count(gpu_layers, 'layer')} on the GPU`] : []),
  ];
  const what = parts.length === 0 ? '' : `: ${parts.join(', ')}`;
  return `model ${model} loaded in ${seconds(load_ms)}${what}`;
}

/** The usual types are not named. */
function cacheOf({ cache_keys, cache_values, flash }: Attention): string[] {
  const types = `${cache_keys}/${cache_values}`;
  return [
    ...(types === 'f16/f16' ? [] : [`cache of ${types}`]),
    ...(flash === 'auto' ? [] : [`${flash ? 'with' : 'without'} flash attention`]),
  ];
}

function causeOfDeath({ signal, exit_code, reason }: Record<string, unknown>): string {
  if (reason === 'memory') return 'it took more memory than it may';
  if (reason === 'outside') return `something else killed it, ${signal}`;
  return signal === null ? `exit code ${exit_code}` : String(signal);
}

/**
 * Logs when a run was accepted, when it is tried again, and how it ended. No line has a text of the
 * prompt or of the answer. A message of a provider was cleaned of them before.
 */
function logRuns(kernel: Kernel, log: Log): void {
  kernel.subscribe({ machine: 'run' }, ({ type, at, data }, { context }) => {
    // Most events are output.
    if (type === 'run.output_appended') return;
    const { run_id } = context;
    switch (type) {
      case 'run.accepted':
        return log.info({ run_id }, `${run_id} accepted: ${targetOf(context)}, ${asker(context)}`);
      case 'run.completed':
        return log.info(
          { run_id },
          `${run_id} completed in ${took(context, at)}${tokens(context)}`,
        );
      case 'run.cancelled':
        return log.info(
          { run_id },
          `${run_id} cancelled after ${took(context, at)}${tokens(context)}`,
        );
      case 'run.failed':
        return warn(log, context, `failed after ${took(context, at)}`);
      case 'run.interrupted':
        return warn(log, context, `ended unfinished after ${took(context, at)}`);
      case 'run.timed_out':
        return warn(log, context, `took too long and ended after ${took(context, at)}`);
      case 'run.suspended':
        return warn(log, context, 'was cut off and waits to resume');
      case 'run.attempt_failed':
        return warn(log, context, retryText(data, at), data.error as Failure);
    }
  });
}

function warn(log: Log, context: RunContext, what: string, error = context.error): void {
  const { run_id } = context;
  if (error === null) log.warn({ run_id }, `${run_id} ${what}`);
  else log.warn({ run_id, code: error.code }, `${run_id} ${what}: ${error.message}`);
}

/** The next step after a failed attempt. */
function retryText(data: Record<string, unknown>, at: number): string {
  const { attempt, retry_at, next } = data as { attempt: number; retry_at: number; next?: Target };
  return next === undefined
    ? `failed in attempt ${attempt} and is tried again in ${seconds(retry_at - at)}`
    : `failed in attempt ${attempt} and continues with ${shownTarget(next)}`;
}

function targetOf({ request }: RunContext): string {
  const target = shownTarget(request);
  return request.cloud ? `${target} (cloud)` : target;
}

/** The name of the token, else the client. */
function asker({ asked_by, client }: RunContext): string {
  return asked_by ?? client;
}

/** The duration as in lists and records: from the acceptance, without the waits for persons. */
function took({ created_at, paused_ms }: RunContext, at: number): string {
  const apart = paused_ms === 0 ? '' : ` (and waited ${seconds(paused_ms)} for a person)`;
  return `${seconds(at - created_at - paused_ms)}${apart}`;
}

/** `: 12 tokens in, 45 out, 37 a second, stop`. */
function tokens(context: RunContext): string {
  const { completion } = context;
  const { usage = null, finish_reason = null } = completion ?? {};
  const input = usage?.input_tokens ?? null;
  const output = usage?.output_tokens ?? context.output_tokens;
  const speed = speedOf(context);
  const rate = speed === null ? '' : `, ${Math.round(speed)} a second`;
  const reason = finish_reason === null ? '' : `, ${finish_reason}`;
  return `: ${input === null ? '' : `${input} tokens in, `}${output} tokens out${rate}${reason}`;
}

/** `0.12 s`, `3.4 s`, `75 s`. Plain arithmetic, because each run has some of these. */
function seconds(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  const digits = s < 1 ? 100 : s < 10 ? 10 : 1;
  return `${Math.round(s * digits) / digits} s`;
}

/** `5.3 MiB`, `640 MiB`. */
function mebibytes(bytes: number): string {
  const mib = bytes / (1024 * 1024);
  return `${mib < 10 ? Math.round(mib * 10) / 10 : Math.round(mib)} MiB`;
}

/** `1 run`, `3 runs`. */
function count(n: number, one: string): string {
  return `${n} ${one}${n === 1 ? '' : 's'}`;
}
