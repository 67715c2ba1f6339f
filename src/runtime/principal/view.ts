import { wrong } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Runtime } from '../port.ts';
import { isMade } from '../runs/ids.ts';
import { unknownConversation, unknownRun } from '../runs/run-errors.ts';
import { type NamedPrincipal, type Needed, ownOnly, requireScope } from './principal.ts';

/**
 * The runtime as a named token sees it. Each method of the port has a rule here, so a new method
 * without one is no valid type. A rule judges a call, and then makes it.
 */
export function viewOf(runtime: Runtime, by: NamedPrincipal): Runtime {
  return guarded(runtime, rules, new Gate(runtime, by));
}

type Call = (...given: never[]) => unknown;
type Rule<F> = (call: F, gate: Gate) => F;
type Rules<Part> = {
  readonly [M in keyof Part]: Part[M] extends Call ? Rule<Part[M]> : Rules<Part[M]>;
};

function guarded<Part extends object>(part: Part, rules: Rules<Part>, gate: Gate): Part {
  const view: Partial<Part> = {};
  for (const name of Object.keys(rules) as (keyof Part)[]) {
    const [value, rule] = [part[name] as never, rules[name]];
    view[name] =
      typeof rule === 'function'
        ? rule((value as Call).bind(part) as never, gate)
        : guarded(value, rule as never, gate);
  }
  return view as Part;
}

/** Any token may call it: it shows nothing that a client asked. */
const any = <F>(call: F): F => call;

function needs(needed: Needed) {
  return <A extends unknown[], R>(call: (...given: A) => R, gate: Gate) =>
    (...given: A): R => {
      gate.need(needed);
      return call(...given);
    };
}
const [reads, admin] = [needs('read'), needs('admin')];

/** The first value is the id of a run, or of a conversation that a program made. */
function of(what: 'run' | 'conversation', needed: Needed) {
  return <A extends unknown[], R>(call: (id: string, ...rest: A) => Promise<R>, gate: Gate) =>
    async (id: string, ...rest: A): Promise<R> => {
      gate.need(needed);
      await gate[what](id);
      return call(id, ...rest);
    };
}
const [seesRun, changesRun] = [of('run', 'any'), of('run', 'run')];
const changesConversation = of('conversation', 'run');

/** The first value is the id of a run. */
const followsRun = <A extends unknown[], R>(
  call: (id: string, ...rest: A) => AsyncIterable<R>,
  gate: Gate,
) =>
  async function* (id: string, ...rest: A): AsyncGenerator<R, void> {
    await gate.run(id);
    yield* call(id, ...rest);
  };

/** A page of runs, which begins before a run that the token may see. */
function ofOwn<Q extends { before?: string }, R>(
  call: (query: Q, asked_by?: string) => Promise<R>,
  gate: Gate,
) {
  return async (query: Q): Promise<R> => {
    if (query.before !== undefined) await gate.run(query.before);
    return call(query, gate.own);
  };
}

/** The first value names a model. */
function ofModel(needed: Needed) {
  return <A extends unknown[], R>(call: (model: string, ...rest: A) => R, gate: Gate) =>
    (model: string, ...rest: A): R => {
      gate.need(needed);
      gate.model({ model });
      return call(model, ...rest);
    };
}

/** The first value has a field that names a model. */
function asksModel<I extends Parameters<Gate['model']>[0], A extends unknown[], R>(
  call: (input: I, ...rest: A) => R,
  gate: Gate,
) {
  return (input: I, ...rest: A): R => {
    gate.need('run');
    gate.model(input);
    return call(input, ...rest);
  };
}

const rules: Rules<Runtime> = {
  runs: {
    start: (call, gate) => async (input, client, asked) => {
      gate.need('run');
      gate.origin(input);
      gate.model(input);
      if (asked?.joins !== undefined) await gate.conversation(asked.joins.conversation);
      return call(input, client, asked, gate.by);
    },
    countTokens: asksModel,
    list: ofOwn,
    search: ofOwn,
    find: (call, gate) => (written) => call(written, gate.own),
    failure: seesRun,
    get: seesRun,
    show: seesRun,
    asked: seesRun,
    head: seesRun,
    askerOf: seesRun,
    follow: followsRun,
    lastSeq: any,
    cancel: changesRun,
    remove: changesRun,
    cancelAll: admin,
    conversations: { peek: admin },
    made: {
      create: (call, gate) => async (made) => {
        gate.need('run');
        return call(made, gate.by);
      },
      get: of('conversation', 'any'),
      page: any,
      add: changesConversation,
      removeItem: changesConversation,
      describe: changesConversation,
      delete: changesConversation,
    },
  },
  queue: {
    watch: (call, gate) => (id, listener, signal) =>
      void gate.run(id).then(
        () => signal.aborted || call(id, listener, signal),
        () => {},
      ),
  },
  embeddings: {
    embed: (call, gate) => async (input, asker, signal) => {
      gate.need('run');
      gate.model(input);
      return call(input, { ...asker, asked_by: gate.by.name }, signal);
    },
  },
  providers: {
    list: any,
    add: admin,
    set: admin,
    use: admin,
    remove: admin,
    rereadKey: admin,
    test: admin,
  },
  models: {
    list: any,
    place: any,
    aliases: any,
    presetOf: any,
    isFile: any,
    next: any,
    show: ofModel('any'),
    find: ofModel('any'),
    remove: admin,
    use: admin,
    setAlias: admin,
  },
  loads: {
    list: any,
    isLocal: any,
    load: asksModel,
    unload: ofModel('run'),
    release: ofModel('run'),
    keep: ofModel('run'),
    watch: (call, gate) => (id, listener) => {
      let end: (() => void) | null = () => {};
      const begin = () => {
        if (end !== null) end = call(id, listener);
      };
      gate.run(id).then(begin, () => {});
      return () => {
        end?.();
        end = null;
      };
    },
  },
  pulls: { search: admin, pull: admin, import: admin, cancel: admin },
  history: {
    machines: reads,
    snapshot: reads,
    followLog: reads,
    readStream: reads,
    readLog: reads,
    runAt: seesRun,
    whyRun: seesRun,
    exportRun: followsRun,
  },
  nodes: { list: any, drain: admin },
  probe: any,
  health: any,
  report: any,
  status: any,
  metrics: any,
  stateChanges: { subscribe: any, next: any },
  why: reads,
  usage: (call, gate) => (query) => call(query, gate.own),
  lifecycle: admin,
  stopped: admin,
};

/** What names a model in a request. */
type Asked = Pick<RunInput, 'provider' | 'model' | 'cloud'>;

/**
 * Judges the requests of one named token. What it may not see does not exist for it: the error is
 * that of an unknown id.
 */
class Gate {
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
