import type { Effects } from '../../../../machines/effects.ts';
import { SvcError } from '../../../errors.ts';
import { ANY } from '../model-engine-options.ts';
import { ProcessEngine, type StartedWork } from '../process-engine.ts';
import { freePort, ServerProcess, serverFiles } from './server-process.ts';

export interface ServerWork extends StartedWork<ServerProcess> {
  end(): void;
}

/** The engine of a server that svc starts. */
export class ServerEngine extends ProcessEngine<ServerProcess> {
  private port = 0;
  private memoryBytes = 0;

  /** Starts the server if needed. Throws SvcError, or the signal's reason. */
  async use(signal: AbortSignal): Promise<ServerWork> {
    const work = await this.takeForWork(ANY, signal);
    return { ...work, end: () => this.endWork(work.process) };
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
