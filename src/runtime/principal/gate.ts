import { wrong } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Runtime } from '../port.ts';
import { isMade } from '../runs/ids.ts';
import { unknownConversation, unknownRun } from '../runs/run-errors.ts';
import { type NamedPrincipal, type Needed, ownOnly, requireScope } from './principal.ts';

/** What names a model in a request. */
type Asked = Pick<RunInput, 'provider' | 'model' | 'cloud'>;

/**
 * Judges the requests of one named token. What it may not see does not exist for it: the error is
 * that of an unknown id.
 */
export class Gate {
  readonly by: NamedPrincipal;
  /** The name of a token that sees only its own. */
  readonly own: string | undefined;
  private readonly runtime: Runtime;

  constructor(runtime: Runtime, by: NamedPrincipal) {
    this.runtime = runtime;
    this.by = by;
    this.own = ownOnly(by);
  }

  /** Throws scope_insufficient. */
  need(needed: Needed): void {
    requireScope(this.by, needed);
  }

  /** Throws run_unknown. */
  async run(id: string): Promise<void> {
    if (this.own === undefined) return;
    if ((await this.runtime.runs.askerOf(id)) !== this.own) throw unknownRun(id);
  }

  /** Throws conversation_unknown. */
  async conversation(id: string): Promise<void> {
    if (this.own === undefined) return;
    const { runs } = this.runtime;
    const asker = isMade(id) ? (await runs.made.get(id)).asked_by : await runs.askerOf(id);
    if (asker !== this.own) throw unknownConversation(id);
  }

  /**
   * Native code reads the file of a path. So only a client that may do everything chooses one.
   * Throws scope_insufficient.
   */
  model(asked: Asked): void {
    if (this.by.scope === 'admin' || !this.runtime.models.isFile(asked)) return;
    throw new SvcError(
      'scope_insufficient',
      `The token ${this.by.name} has the scope ${this.by.scope}, and the path of a model needs ` +
        'admin.',
      {
        param: 'model',
        hint: 'Name a model of the list: GET /v1/models. Or move the file into the models folder.',
        details: { scope: this.by.scope, needed: 'admin' },
      },
    );
  }

  /** Throws invalid_request: the home finds its conversations by the origin. */
  origin({ origin }: Pick<RunInput, 'origin'>): void {
    if (origin == null) return;
    throw wrong(
      'origin',
      'origin must be absent: only the token of the home says where a client is.',
    );
  }
}
