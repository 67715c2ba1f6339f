import { invalidRequest } from '../contract/check.ts';
import type { Asker, RunInput } from '../contract/contract.ts';
import { SvcError } from '../errors.ts';
import {
  type NamedPrincipal,
  type NeededScope,
  requireScope,
  restrictedNameOf,
} from '../runtime/principal/principal.ts';
import { isMade } from '../runtime/runs/ids.ts';
import { unknownConversation, unknownRun } from '../runtime/runs/run-errors.ts';
import { type RuledMethod, rows } from './operations.ts';
import type { Runtime } from './port.ts';
import type { Access } from './row.ts';

/**
 * The runtime as a named token sees it. Each method of the port has a rule: in the row of its
 * operation, or here. A new method without a rule does not compile. A rule judges a call, and then
 * makes it.
 */
export function viewOf(runtime: Runtime, by: NamedPrincipal): Runtime {
  return guard(runtime, allRules, new Gate(runtime, by));
}

type Call = (...args: never[]) => unknown;
type Rule<F> = (call: F, gate: Gate) => F;
/** The methods whose rule is not in the row of an operation. */
type Rules<Part, P extends string = ''> = {
  readonly [M in keyof Part & string as `${P}${M}` extends RuledMethod
    ? never
    : M]: Part[M] extends Call ? Rule<Part[M]> : Rules<Part[M], `${M}.`>;
};
interface AllRules {
  readonly [name: string]: Rule<never> | AllRules;
}

function guard<Part extends object>(part: Part, rules: AllRules, gate: Gate): Part {
  const view: Record<string, unknown> = {};
  for (const [name, rule] of Object.entries(rules)) {
    const value = (part as Record<string, unknown>)[name] as Call;
    view[name] =
      typeof rule === 'function' ? rule(value.bind(part) as never, gate) : guard(value, rule, gate);
  }
  return view as Part;
}

/** Any token may call it: it shows no request of a client. */
const any = <F>(call: F): F => call;

function needs(needed: NeededScope) {
  return <A extends unknown[], R>(call: (...args: A) => R, gate: Gate) =>
    (...args: A): R => {
      gate.need(needed);
      return call(...args);
    };
}
const [reads, admin] = [needs('read'), needs('admin')];

/** The first value is the id of a run, or of a conversation that a program made. */
function ruleForId(what: 'run' | 'conversation', needed: NeededScope) {
  return <A extends unknown[], R>(call: (id: string, ...rest: A) => Promise<R>, gate: Gate) =>
    async (id: string, ...rest: A): Promise<R> => {
      gate.need(needed);
      await gate[what](id);
      return call(id, ...rest);
    };
}
const seesRun = ruleForId('run', 'any');
const changesConversation = ruleForId('conversation', 'run');

/** A page of runs, which begins before a run that the token may see. */
function ruleForOwnPage<Q extends { before?: string }, R>(
  call: (query: Q, asked_by?: string) => Promise<R>,
  gate: Gate,
) {
  return async (query: Q): Promise<R> => {
    if (query.before !== undefined) await gate.run(query.before);
    return call(query, gate.own);
  };
}

/** The first value names a model, or has the fields that do. */
function ruleForModel(needed: NeededScope) {
  return <I extends string | Parameters<Gate['model']>[0], A extends unknown[], R>(
    call: (input: I, ...rest: A) => R,
    gate: Gate,
  ) =>
    (input: I, ...rest: A): R => {
      gate.need(needed);
      gate.model(typeof input === 'string' ? { model: input } : input);
      return call(input, ...rest);
    };
}
const asksModel = ruleForModel('run');

/** As `asksModel`, with the asker. */
function asksBy<I extends Parameters<Gate['model']>[0], R>(
  call: (input: I, asker: Asker, signal: AbortSignal) => Promise<R>,
  gate: Gate,
) {
  return async (input: I, asker: Asker, signal: AbortSignal): Promise<R> => {
    gate.need('run');
    gate.model(input);
    return call(input, { ...asker, asked_by: gate.by.name }, signal);
  };
}

/**
 * The log has the token that decided. Its prefix keeps a name from posing as the policy. What
 * `always` changes is the configuration.
 */
const decides: Rule<Runtime['approvals']['decide']> = (call, gate) => async (id, input) => {
  gate.need('approve');
  if (input.always === true) gate.need('admin');
  return call(id, input, `token:${gate.by.name}`);
};

/** The rules that operations name. */
const byAccess: Readonly<Record<Access, unknown>> = {
  any,
  read: reads,
  run: needs('run'),
  approve: needs('approve'),
  decides,
  admin,
  own: ruleForOwnPage,
  'sees run': seesRun,
  'changes run': ruleForId('run', 'run'),
  'sees conversation': ruleForId('conversation', 'any'),
  'sees model': ruleForModel('any'),
  'asks model': asksModel,
};

const rules: Rules<Runtime> = {
  runs: {
    start: (call, gate) => async (input, client, source) => {
      gate.need('run');
      gate.origin(input);
      gate.model(input);
      if (source?.joins !== undefined) await gate.conversation(source.joins.conversation);
      return call(input, client, source, gate.by);
    },
    countTokens: asksModel,
    readPrompt: asksModel,
    find: (call, gate) => (written) => call(written, gate.own),
    failure: seesRun,
    get: seesRun,
    answer: seesRun,
    readRequest: seesRun,
    head: seesRun,
    askerOf: seesRun,
    follow: (call, gate) =>
      async function* (id, options) {
        await gate.run(id);
        yield* call(id, options);
      },
    lastSeq: any,
    cancelAll: admin,
    conversations: { peek: admin },
    made: {
      create: (call, gate) => async (made) => {
        gate.need('run');
        return call(made, gate.by);
      },
      get: ruleForId('conversation', 'any'),
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
  approvals: {},
  embeddings: { embed: asksBy, rerank: asksBy, read: asksBy, pass: asksBy },
  providers: {},
  mcp: {},
  models: {
    list: any,
    place: any,
    presetOf: any,
    isFile: any,
    next: any,
    find: ruleForModel('any'),
    create: admin,
  },
  loads: {
    isLocal: any,
    continuesTexts: any,
    release: asksModel,
    keep: asksModel,
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
  pulls: {},
  history: {
    followLog: (call, gate) => (query, options) => {
      gate.need('read');
      return call(query, options);
    },
    runAt: seesRun,
    exportRun: (call, gate) =>
      async function* (id, options) {
        await gate.run(id);
        yield* call(id, options);
      },
  },
  nodes: {},
  probe: any,
  metrics: reads,
  stateChanges: { subscribe: any, next: any },
};

const allRules = rows.reduce<AllRules>(
  (all, [, { method, access = 'admin' }]) =>
    method === undefined ? all : withRule(all, method.split('.'), byAccess[access] as Rule<never>),
  rules as unknown as AllRules,
);

function withRule(rules: AllRules, [name = '', ...inner]: string[], rule: Rule<never>): AllRules {
  const value = inner.length === 0 ? rule : withRule((rules[name] ?? {}) as AllRules, inner, rule);
  return { ...rules, [name]: value };
}

/** The fields of a request that name a model. */
type TargetChoice = Pick<RunInput, 'provider' | 'model' | 'cloud'>;

/**
 * Judges the requests of one named token. Hidden objects do not exist for it: the error is that of
 * an unknown id.
 */
class Gate {
  readonly by: NamedPrincipal;
  /** The name of a token that sees only its own. */
  readonly own: string | undefined;
  private readonly runtime: Runtime;

  constructor(runtime: Runtime, by: NamedPrincipal) {
    this.runtime = runtime;
    this.by = by;
    this.own = restrictedNameOf(by);
  }

  /** Throws scope_insufficient. */
  need(needed: NeededScope): void {
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
   * Native code reads the file of a path, so only a client with the scope `admin` chooses one.
   * Throws scope_insufficient.
   */
  model(choice: TargetChoice): void {
    if (this.by.scope === 'admin' || !this.runtime.models.isFile(choice)) return;
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
    throw invalidRequest(
      'origin',
      'origin must be absent: only the token of the home says where a client is.',
    );
  }
}
