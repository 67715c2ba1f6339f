import type { Effects } from '../../../machines/effects.ts';
import type { NewEvent } from '../../../machines/events.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import type { ProviderEvent } from '../../../machines/provider/context.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import { timeoutSignal } from '../../async/timers.ts';
import type { Config } from '../../config/config.ts';
import { credentialOf } from '../../config/key-reference.ts';
import type { ProviderKeys } from '../../config/keys/port.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { ProviderRecord } from '../../contract/contract.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type ProviderKey, stream as streams } from '../../kernel/stream.ts';
import { FIRST_LIST_MS, LOCAL_LIST_MS } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import type { ProviderPort } from '../../ports/providers.ts';
import type { Outcome, Usable } from './admission.ts';
import { Admission, type Asking, type Patience } from './admission.ts';
import { askProvider, hasEnded, isSameList, ProviderWatch } from './probe.ts';
import { knownModels, providerRecord, toProviderCreated } from './records.ts';
import { unknownProvider } from './unknown-provider.ts';

/**
 * The providers of this boot. Each has its configuration, its port and its machine.
 *
 * 1. Every provider has one machine, in the stream `provider:<id>:<boot>`. Each later stream of the
 *    same boot has a number too.
 * 2. A cloud provider gets no request unless a client asks for that provider.
 * 3. A probe that changes nothing is not recorded. See `probe.ts`.
 * 4. A provider whose circuit is open gets no request. A half-open one gets one at a time.
 */

export const LOCAL = 'local';

export interface ProvidersOptions {
  kernel: Kernel;
  boot_id: string;
  config: Config;
  env: NodeJS.ProcessEnv;
  log: Log;
  keysOf(id: string): ProviderKeys;
  local: ProviderPort;
  remote(id: string, config: ProviderConfig): ProviderPort;
  /** From 0 to 1, for the jitter of waits. */
  random?: () => number;
}

interface Entry {
  stream: ProviderKey;
  port: ProviderPort;
  /** Null for the built-in engine. */
  config: ProviderConfig | null;
}

export class Providers {
  private readonly options: ProvidersOptions;
  private readonly entries = new Map<string, Entry>();
  private readonly watch: ProviderWatch;
  private readonly transitions: Transitions;
  private readonly admission: Admission;
  /** The latest probe of each provider that a user waits for. */
  private readonly userProbes = new Map<ProviderKey, number>();
  private streamCount = 0;
  /** The latest probe of the local models. It may end after its machine gave it up. */
  private probing: Promise<unknown> = Promise.resolve();

  constructor(options: ProvidersOptions) {
    this.options = options;
    const { kernel, log, config, random = Math.random } = options;
    const { limits } = config;
    this.transitions = new Transitions(kernel);
    this.watch = new ProviderWatch({ kernel, log, limits, random });
    this.admission = new Admission({ kernel, limits, random, watch: this.watch });
  }

  /**
   * Starts the machines of all providers. Resolves when each local one is probed, and the names of
   * the local models are known: an earlier request would go to another provider.
   */
  async open(): Promise<void> {
    const { config, local, remote } = this.options;
    await this.register(LOCAL, null, local);
    for (const [id, settings] of Object.entries(config.providers))
      await this.register(id, settings, remote(id, settings));
    await Promise.all(
      [...this.entries]
        .filter(([, entry]) => entry.config?.kind !== 'cloud')
        .map(([id]) => this.probe(id)),
    );
    if (local.listed?.() !== null) return;
    // On a busy machine they come after the time of the probe.
    const { kernel } = this.options;
    const late = new AbortController();
    const bound = new Promise<void>((end) => kernel.clock.after(FIRST_LIST_MS, end, late.signal));
    await Promise.race([this.probing, bound]);
    late.abort();
  }

  config(id: string): ProviderConfig | null | undefined {
    return this.entries.get(id)?.config;
  }

  /** The configuration of every provider. Null for the built-in engine. */
  settings(): Map<string, ProviderConfig | null> {
    return new Map([...this.entries].map(([id, { config }]) => [id, config]));
  }

  /** The models that it last listed. Null: unknown. */
  listed(id: string): readonly string[] | null {
    const entry = this.entries.get(id);
    if (entry === undefined) return null;
    if (entry.port.listed !== undefined) return entry.port.listed();
    const snapshot = this.snapshot(id);
    return isIn(snapshot, 'unknown') ? null : snapshot.context.models;
  }

  /** The stream of its machine. Undefined: it was removed. */
  streamOf(id: string): ProviderKey | undefined {
    return this.entries.get(id)?.stream;
  }

  ids(): string[] {
    return [...this.entries.keys()];
  }

  /**
   * The port that answers a run. A provider may have become a cloud one since the run was accepted.
   * Then it has no port for that run, because the client did not allow its prompt to leave.
   */
  portFor({ provider, cloud }: Pick<RunRequest, 'provider' | 'cloud'>): ProviderPort | undefined {
    const entry = this.entries.get(provider);
    return entry?.config?.kind === 'cloud' && !cloud ? undefined : entry?.port;
  }

  /**
   * Whether a request may go to a model of it now, or without one to any. Its machine decides; the
   * provider is not called.
   */
  usable(id: string, model: string | null = null): Usable {
    return this.admission.checkUsable(id, this.entries.get(id)?.stream, model);
  }

  /** When it is retried, if it takes no request now. */
  retryAt(id: string, model: string | null = null): number | null {
    const usable = this.usable(id, model);
    return usable.ok ? null : usable.until;
  }

  /** Lets a request in, if the provider is usable. `recordOutcome` must follow. */
  enter(id: string, asking: Asking, patience?: Patience): Promise<Usable> {
    return this.admission.enter(id, this.entries.get(id)?.stream, asking, patience);
  }

  async add(id: string, settings: ProviderConfig): Promise<ProviderRecord> {
    if (this.entries.has(id))
      throw new SvcError('provider_exists', `A provider ${id} is configured already.`, {
        param: 'id',
      });
    await this.register(id, settings, this.options.remote(id, settings));
    if (settings.kind === 'local') await this.probe(id);
    return this.record(id);
  }

  /**
   * The same provider with other settings, and another machine. Requests in progress end with the
   * old settings. Their connections close by themselves.
   */
  async replace(id: string, settings: ProviderConfig): Promise<ProviderRecord> {
    const { stream } = this.entryOf(id);
    await this.register(id, settings, this.options.remote(id, settings));
    await this.forget(stream);
    if (settings.kind === 'local') await this.probe(id);
    return this.record(id);
  }

  async remove(id: string): Promise<ProviderRecord> {
    const { stream, port } = this.entryOf(id);
    const record = this.record(id);
    this.entries.delete(id);
    await this.forget(stream);
    await this.options.keysOf(id).forget();
    await port.close();
    return { ...record, state: 'removed' };
  }

  private async forget(stream: ProviderKey): Promise<void> {
    this.watch.remove(stream);
    this.transitions.forget(stream);
    this.userProbes.delete(stream);
    await this.options.kernel.tryAppend(stream, { type: 'provider.removed' });
    this.options.kernel.forget(stream);
  }

  /** The stored key changed, so it may be accepted now. Resolves when it is read. */
  async rereadKey(id: string): Promise<ProviderRecord> {
    const { config, stream } = this.entryOf(id);
    const fault = config === null ? null : await keyFault(this.options.keysOf(id), config);
    if (fault === null)
      await this.options.kernel.tryAppend(stream, { type: 'provider.key_changed' });
    return this.record(id);
  }

  /** Probes the provider now. Resolves with the outcome. */
  async probe(id: string): Promise<ProviderRecord> {
    const { stream } = this.entryOf(id);
    const { kernel } = this.options;
    // A deadline may have started a probe that is not committed yet.
    const tail = kernel.tail(stream);
    const probe = tail?.context.probe ?? 0;
    this.userProbes.set(stream, isIn(tail, 'probing') ? probe : probe + 1);
    const started = await kernel.tryAppend(stream, {
      type: 'provider.probe_started',
      probe: probe + 1,
    });
    const awaited = started ? probe + 1 : probe;
    await kernel.waitFor(stream, (now) => hasEnded(now, awaited));
    return this.record(id);
  }

  /** Handles the effect: probes the provider and records the outcome. */
  handleProbe({ provider_id, probe }: Effects['probeProvider']): void {
    const entry = this.entries.get(provider_id);
    if (entry === undefined) return;
    const answer = askProvider(entry.port, this.options.config.limits.probe_ms);
    if (provider_id === LOCAL) this.probing = answer;
    void answer.then((result) => {
      // The provider was removed meanwhile, and its machine is gone.
      if (this.entries.get(provider_id) !== entry) return;
      if (!(result instanceof SvcError)) {
        const isKnown = isSameList(result.models, this.snapshot(provider_id).context.models);
        // A known list is not recorded again.
        const models = isKnown ? null : result.models;
        const byUser =
          this.userProbes.get(entry.stream) === probe ? ({ asked: true } as const) : {};
        this.appendOrLog(entry, { type: 'provider.probe_succeeded', probe, models, ...byUser });
        return;
      }
      this.appendOrLog(entry, {
        type: 'provider.probe_failed',
        probe,
        ...this.admission.faultOf('probe', entry.stream, result),
      });
    });
  }

  /** Records how a request goes. One that was let in always ends with an outcome. */
  recordOutcome(id: string, outcome: Outcome, asking: Asking): void {
    const entry = this.entries.get(id);
    const event =
      entry === undefined ? null : this.admission.outcome(entry.stream, outcome, asking);
    if (entry !== undefined && event !== null) this.appendOrLog(entry, event);
  }

  list(): ProviderRecord[] {
    return this.ids().map((id) => this.record(id));
  }

  record(id: string): ProviderRecord {
    const { config, stream } = this.entryOf(id);
    const settings = {
      credential: this.credential(id, config),
      transitions: this.transitions.of(stream),
      default: id === this.options.config.default_provider,
    };
    return providerRecord(this.snapshot(id), settings, this.options.kernel.clock.now());
  }

  /** The models of all providers. A cloud provider is not called: its known models are listed. */
  async models(): Promise<ModelRecord[]> {
    const lists = await Promise.all(
      [...this.entries].map(async ([id, entry]) => {
        if (entry.config?.kind === 'cloud')
          return knownModels(id, entry.config, this.snapshot(id).context.models);
        const { probe_ms } = this.options.config.limits;
        return entry.port
          .models(timeoutSignal(id === LOCAL ? Math.max(probe_ms, LOCAL_LIST_MS) : probe_ms))
          .catch((error: unknown) => {
            this.options.log.debug({ err: error, provider: id }, 'models could not be listed');
            return [];
          });
      }),
    );
    return lists.flat();
  }

  async close(): Promise<void> {
    this.watch.close();
    await Promise.allSettled([...this.entries.values()].map((entry) => entry.port.close()));
  }

  private async register(
    id: string,
    config: ProviderConfig | null,
    port: ProviderPort,
  ): Promise<void> {
    const { boot_id, kernel } = this.options;
    const { limits } = this.options.config;
    this.streamCount += 1;
    const stream = streams.provider(id, boot_id, this.streamCount);
    const event = toProviderCreated(id, config, limits);
    this.entries.set(id, { stream, port, config });
    await kernel.append([{ stream, event }]);
    const fault = config === null ? null : await keyFault(this.options.keysOf(id), config);
    if (fault !== null) {
      const event = { type: 'provider.faulted', ...this.admission.faultOf('key', stream, fault) };
      await kernel.tryAppend(stream, event as NewEvent<ProviderEvent>);
    }
    this.watch.add(stream, port);
  }

  private credential(id: string, config: ProviderConfig | null): string {
    const place = config === null ? null : this.options.keysOf(id).stored();
    return place === null
      ? credentialOf(config?.key ?? null, this.options.env)
      : `stored (${place})`;
  }

  private appendOrLog(entry: Entry, event: NewEvent<ProviderEvent>): void {
    this.options.kernel.tryAppend(entry.stream, event).catch((error: unknown) => {
      // A probe that is interrupted by the end of the daemon says nothing about its provider.
      if (this.options.kernel.closed) return;
      this.options.log.error(
        { err: error, stream: entry.stream },
        'an event of a provider could not be recorded',
      );
    });
  }

  private entryOf(id: string): Entry {
    const entry = this.entries.get(id);
    if (entry !== undefined) return entry;
    throw unknownProvider(id, this.ids());
  }

  private snapshot(id: string): ProviderSnapshot {
    return this.options.kernel.snapshot(this.entryOf(id).stream) as ProviderSnapshot;
  }
}

/** Why the key of a provider cannot be read. Null: it can, or the provider has no key. */
async function keyFault(keys: ProviderKeys, config: ProviderConfig): Promise<SvcError | null> {
  try {
    await keys.read(config);
    return null;
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    throw thrown;
  }
}

/** State changes of one provider in its record. */
const TRANSITIONS_MAX = 10;

type Transition = ProviderRecord['transitions'][number];

/**
 * The latest state changes of each provider, oldest first. A probe that leads back to the previous
 * state does not count.
 */
class Transitions {
  private readonly byStream = new Map<string, Transition[]>();

  constructor(kernel: Kernel) {
    kernel.subscribe({ machine: 'provider' }, ({ stream, at, version }, snapshot) => {
      const state = stateName(snapshot);
      const known = version === 1 ? [] : (this.byStream.get(stream) ?? []);
      if (state === 'probing' || known.at(-1)?.state === state) return;
      const code = snapshot.context.error?.code ?? null;
      known.push({ at: isoTime(at), state, code });
      this.byStream.set(stream, known.slice(-TRANSITIONS_MAX));
    });
  }

  of(stream: ProviderKey): Transition[] {
    return this.byStream.get(stream) ?? [];
  }

  forget(stream: ProviderKey): void {
    this.byStream.delete(stream);
  }
}
