import type { NewEvent } from '../../../machines/events.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { circuitOf } from '../../../machines/provider/circuit.ts';
import type { ProviderEvent } from '../../../machines/provider/context.ts';
import { isIn } from '../../../machines/step.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { ProviderKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import {
  type FailureSource,
  faultOf,
  isFault,
  type Outcome,
  trialAt,
  type Usable,
  usability,
} from './circuit.ts';
import type { ProviderWatch } from './probe.ts';

export interface AdmissionOptions {
  kernel: Kernel;
  limits: Limits;
  /** From 0 to 1, for the jitter of waits. */
  random: () => number;
  watch: ProviderWatch;
}

/** A run or embedding, and the model that it asks. */
export interface Asking {
  request: string;
  model: string;
}

/** How long a request waits while another one tries the provider or the model. */
export interface Patience {
  wait_ms: number;
  signal: AbortSignal;
}

/** Decides which requests go to a provider, as the circuit in its machine says. */
export class Admission {
  private readonly options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.options = options;
  }

  usable(id: string, stream: ProviderKey | undefined, model: string | null): Usable {
    const tail = this.tail(stream);
    const now = this.options.kernel.clock.now();
    return tail === undefined ? unknown(id) : usability(tail, model, now);
  }

  /**
   * 1. A local provider that was down is probed first: it may be there again. One that was only
   *    slow gets the request.
   * 2. A provider or model whose time has come lets one request in, which tries it. The others wait
   *    for its outcome, if they have patience.
   */
  async enter(
    id: string,
    stream: ProviderKey | undefined,
    { request, model }: Asking,
    patience?: Patience,
  ): Promise<Usable> {
    const before = this.tail(stream);
    if (stream === undefined || before === undefined) return unknown(id);
    const isDown = isIn(before, 'unavailable') && !this.usable(id, stream, null).ok;
    if (isDown && before.context.retry_at === null) await this.options.watch.look(stream);
    const { kernel, limits } = this.options;
    const patient_until = kernel.clock.now() + (patience?.wait_ms ?? 0);
    for (;;) {
      const usable = this.usable(id, stream, model);
      const trial = this.trial(stream, model);
      if (patience !== undefined && trial?.isTaken === true) {
        if (await this.isTried(stream, model, patient_until, patience.signal)) continue;
        return usable;
      }
      if (!usable.ok || trial === null) return usable;
      const isMine = await kernel.tryAppend(stream, {
        type: 'provider.trial_started',
        trial: request,
        ...(trial.of === 'model' ? { model } : {}),
        until: kernel.clock.now() + limits.first_output_ms,
      });
      if (isMine) return usable;
      // A trial that is free and refused would be tried for ever: the clock went back.
      const isFree = this.trial(stream, model)?.isTaken === false;
      if (patience === undefined || isFree) return this.usable(id, stream, model);
    }
  }

  private trial(stream: ProviderKey, model: string): ReturnType<typeof trialAt> {
    const tail = this.tail(stream);
    return tail === undefined ? null : trialAt(tail, model, this.options.kernel.clock.now());
  }

  /**
   * Waits while another request tries the provider. False: it still does. Throws the reason of the
   * signal.
   */
  private async isTried(
    stream: ProviderKey,
    model: string,
    until: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { kernel } = this.options;
    const late = new AbortController();
    const left_ms = Math.max(0, until - kernel.clock.now());
    const stop = kernel.clock.after(left_ms, () => late.abort());
    const isOver = () => this.trial(stream, model)?.isTaken !== true;
    try {
      await kernel.waitFor(stream, isOver, AbortSignal.any([signal, late.signal]));
      return true;
    } catch (error) {
      if (signal.aborted || !late.signal.aborted) throw error;
      return false;
    } finally {
      stop();
    }
  }

  /** The event that records how a request goes. Null: it says nothing about the provider. */
  outcome(stream: ProviderKey, outcome: Outcome, asking: Asking): NewEvent<ProviderEvent> | null {
    const { request, model } = asking;
    const context = this.tail(stream)?.context;
    const isOfModel = circuitOf(context?.circuits ?? [], model)?.trial?.request === request;
    const isTrial = isOfModel || context?.trial === request;
    if (outcome === 'answered' || (outcome === 'began' && isTrial))
      return { type: 'provider.answered', model };
    if (outcome instanceof SvcError && isFault(outcome))
      return { type: 'provider.faulted', ...this.faultOf(asking, stream, outcome) };
    if (outcome === 'began' || !isTrial) return null;
    const abandoned = { type: 'provider.trial_abandoned', trial: request } as const;
    return isOfModel ? { ...abandoned, model } : abandoned;
  }

  faultOf(of: FailureSource, stream: ProviderKey, failure: SvcError) {
    const { kernel, limits, random } = this.options;
    const tail = this.tail(stream) as ProviderSnapshot;
    return faultOf(of, failure, tail, { now: kernel.clock.now(), limits, jitter: random() });
  }

  /** The state with its proposed events: decisions use it. Undefined: it was removed. */
  private tail(stream: ProviderKey | undefined): ProviderSnapshot | undefined {
    return stream === undefined ? undefined : this.options.kernel.tail(stream);
  }
}

function unknown(id: string): Usable {
  const reason = `There is no provider ${JSON.stringify(id)}.`;
  return { ok: false, code: 'provider_unknown', reason, until: null };
}
