import type { Effects } from '../../../machines/effects.ts';
import type { Completion } from '../../contract/events.ts';
import { SvcError } from '../../errors.ts';
import { ANY } from './model-engine-options.ts';
import { ProcessEngine } from './process-engine.ts';
import { freePort, ServerProcess, serverFiles } from './server-process.ts';

/** Work at a server, which must end. */
export interface ServerWork {
  process: ServerProcess;
  /** How long it waited for the load, if it did. */
  waited: Pick<Completion, 'load_ms'>;
  end(): void;
}

/** The engine of a server that svc starts. */
export class ServerEngine extends ProcessEngine<ServerProcess> {
  private port = 0;
  private memoryBytes = 0;

  /** Starts the server if needed. Throws SvcError, or the signal's reason. */
  async use(signal: AbortSignal): Promise<ServerWork> {
    const [before, asked_at] = [this.snapshot, performance.now()];
    const process = await this.take(ANY, signal, (found) => this.beginWork(found));
    const wasThere = before.hasTag('loaded') && before.context.attempt === process.attempt;
    const waited = wasThere ? {} : { load_ms: Math.round(performance.now() - asked_at) };
    return { process, waited, end: () => this.endWork(process) };
  }

  protected override async prepare(): Promise<void> {
    const { limits } = this.options;
    const { bytes } = await serverFiles(this.server);
    this.memoryBytes = this.server.memory_bytes ?? limits.engine_memory_bytes + bytes;
    this.port = await freePort();
  }

  protected spawn(started: Effects['startEngine']): ServerProcess {
    const { env, limits, log, grow } = this.options;
    return new ServerProcess({
      started,
      env,
      limits,
      log,
      server: this.server,
      port: this.port,
      memoryBytes: this.memoryBytes,
      onUse: (bytes) => grow(started.attempt, bytes),
      report: (event) => this.report(event),
    });
  }

  private get server() {
    if (this.model.server === undefined) throw new SvcError('internal');
    return this.model.server;
  }
}
