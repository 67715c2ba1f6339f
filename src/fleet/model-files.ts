import { fileToResume } from '../../machines/run/next.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type RunKey, stream } from '../kernel/stream.ts';
import type { Offer } from './claims.ts';
import type { ClaimedRun, Fleet, Waiting, WantedFile, WantedModel } from './port.ts';

export interface ModelFilesOptions {
  fleet: Pick<Fleet, 'keepOn'>;
  kernel: Kernel;
  /** For so long, a run waits for a node to say that it has the file. */
  keep_ms: number;
  /** The models that this node can call now. */
  offers(): readonly Offer[];
  /** Which file a model of this node is. Null: none, or it cannot be read. */
  fileOf(provider: string, model: string): Promise<string | null>;
}

/** A run that another node may resume. */
export interface MissingFile {
  run_id: RunKey;
  file: string;
}

/**
 * Which node resumes an answer: one with the model file that computed its beginning. It owns the
 * list of the files of this node for which runs are kept.
 *
 * 1. A node without the file releases the run. Then it is kept for the nodes that have it.
 * 2. A node that has the file says so at each poll, until it has a free place for the run.
 * 3. A node has a model whose file it can read, whether or not it has listed it.
 * 4. When no node has said so for `keep_ms`, any node takes the run. There it ends as interrupted.
 */
export class ModelFiles {
  /** Files of this node, as of the last poll. */
  here: readonly WantedFile[] = [];
  /** Models that this node has and did not list at its last probe: paths, and new files. */
  unlisted: readonly WantedModel[] = [];
  private readonly options: ModelFilesOptions;

  constructor(options: ModelFilesOptions) {
    this.options = options;
  }

  /** Says which of the files this node has. The runs for them wait for it. */
  async answer({ wanted, unlisted }: Pick<Waiting, 'wanted' | 'unlisted'>): Promise<void> {
    const readable = await Promise.all(unlisted.map((one) => this.fileOf(one)));
    this.unlisted = unlisted.filter((_, index) => readable[index] != null);
    const found = await Promise.all(wanted.map((one) => this.has(one)));
    this.here = wanted.filter((_, index) => found[index]);
    if (this.here.length > 0) await this.options.fleet.keepOn(this.here, this.options.keep_ms);
  }

  /** Claimed runs, loaded in the kernel, whose model files this node lacks. */
  async findMissing(claimed: readonly ClaimedRun[]): Promise<MissingFile[]> {
    const found = await Promise.all(claimed.map((run) => this.findMissingFor(run)));
    return found.flatMap((one) => one ?? []);
  }

  private async findMissingFor(claimed: ClaimedRun): Promise<MissingFile | null> {
    const run_id = stream.run(claimed.run_id);
    const snapshot = this.options.kernel.snapshot(run_id);
    const file = fileToResume(snapshot);
    if (claimed.kept || snapshot === undefined || file === null) return null;
    return (await this.has({ ...snapshot.context.request, file })) ? null : { run_id, file };
  }

  private async has({ file, ...model }: WantedFile): Promise<boolean> {
    return (await this.fileOf(model)) === file;
  }

  private async fileOf({ provider, model }: WantedModel): Promise<string | null> {
    const { offers, fileOf } = this.options;
    return offers().some((one) => one.provider === provider) ? fileOf(provider, model) : null;
  }
}
