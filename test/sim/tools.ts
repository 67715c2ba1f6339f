import type { ApprovalRecord } from '../../src/contract/approvals.ts';
import { SvcError } from '../../src/errors.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { stream } from '../../src/kernel/stream.ts';
import type { ToolInfo, ToolResult } from '../../src/ports/tools.ts';
import { ScriptedServers } from '../helpers/scripted-servers.ts';
import { builtIn, toolsOfSvc } from './built-in.ts';
import { hashOf, mix } from './random.ts';
import { allowed, hold } from './violation.ts';
import type { World } from './world.ts';

/**
 * The tools, and whether a call may be repeated. What they do is decided by the simulation. `notes`
 * and `web` are of svc itself: their code says the same.
 */
export const TOOLS = {
  'box/ask': { policy: 'ask', repeatable: false },
  'box/do': { policy: 'allow', repeatable: false },
  'box/read': { policy: 'allow', repeatable: true },
  'notes/edit': { policy: 'ask', repeatable: false },
  'notes/write': { policy: 'ask', repeatable: true },
  'web/get': { policy: 'allow', repeatable: true },
} as const;
type ToolName = keyof typeof TOOLS;
const NAMES = Object.keys(TOOLS) as ToolName[];

const ARGUMENTS: Partial<Record<ToolName, (n: number) => object>> = {
  'notes/edit': (n) => ({ path: 'a', old: `${n}`, new: '' }),
  'notes/write': (n) => ({ path: `${n}`, content: '' }),
  'web/get': (n) => ({ url: `https://example.org/${n}` }),
};

/** The calls with which a turn of a model ends: a pure function of the prompt. */
export function callsOf(
  prompt: string,
  turn: number,
): { id: string; name: string; args: string }[] {
  const base = mix(hashOf(prompt), turn + 900);
  const most = turn === 0 ? 1 + (base % 2) : turn === 1 ? base % 2 : 0;
  return Array.from({ length: most }, (_, index) => {
    const name = NAMES[(mix(base, index) >>> 8) % NAMES.length] ?? 'box/do';
    const n = 10 * turn + index;
    return {
      id: `call_${turn}_${index}`,
      name: name.replace('/', '__'),
      args: JSON.stringify(ARGUMENTS[name]?.(n) ?? { n }),
    };
  });
}

/** A call that a server carries out. It waits for the simulation. */
interface Execution {
  id: string;
  /** A tool of svc works in the daemon. It has not yet, and may die with the daemon before. */
  isAhead: boolean;
  end(answer: ToolResult | SvcError): void;
}

/**
 * The tool server, which counts what it carries out, and the person who decides.
 *
 * 1. A call is carried out at most as often as the log says that it was started.
 * 2. It is started again only after a person said so, or if its tool may be repeated.
 * 3. A call that has a result was carried out.
 * 4. A call is allowed or denied once. A confirmed decision is in the log, a refused one is not.
 */
export class Tools {
  readonly open = new Set<Execution>();
  private readonly world: World;
  private readonly executed = new Map<string, number>();
  private decisions = 0;

  constructor(world: World) {
    this.world = world;
  }

  /** The servers as one boot sees them. */
  servers(): ScriptedServers {
    const begin = (server: string, id: string) => this.begin(server, id);
    return new (class extends ScriptedServers {
      override async tools(server: string): Promise<ToolInfo[]> {
        return toolsOfSvc[server] ?? super.tools(server);
      }
      override policy(server: string, tool: ToolInfo) {
        return server in toolsOfSvc ? builtIn.policy(server, tool) : super.policy(server, tool);
      }
      override mayRepeat(server: string, tool: ToolInfo) {
        const isOwn = server in toolsOfSvc;
        return isOwn ? builtIn.mayRepeat(server, tool) : super.mayRepeat(server, tool);
      }
      override async call(server: string, _: string, __: unknown, { id }: { id: string }) {
        return begin(server, id);
      }
    })(Object.fromEntries(Object.entries(TOOLS).map(([name, tool]) => [name, { ...tool, run }])));
  }

  /** The boot is over, and nothing hears of its results. */
  forget(): void {
    this.open.clear();
  }

  /** A call ends. The server may die of it. */
  act(): void {
    const { random, isQuiet, stats } = this.world;
    const execution = random.pick([...this.open]);
    if (execution.isAhead) {
      execution.isAhead = false;
      this.work(execution.id);
      return;
    }
    this.open.delete(execution);
    const isLost = !isQuiet && random.onceIn(4);
    if (isLost) stats.count('lost calls');
    execution.end(
      isLost
        ? new SvcError('tool_lost', 'The server died.')
        : { text: `result of call ${execution.id.split('.')[1]}`, is_error: false },
    );
  }

  /** The person decides about a call that waits, sometimes twice at the same time. */
  decide(): void {
    const { random, isQuiet } = this.world;
    const waiting = this.waiting();
    if (waiting.length === 0) return;
    const { id, state } = random.pick(waiting);
    const choices = state === 'lost' ? (['repeat', 'result', 'skip'] as const) : YES_OR_NO;
    this.send(id, random.pick(choices));
    if (!isQuiet && random.onceIn(3)) this.send(id, random.pick(choices));
  }

  get waits(): boolean {
    return this.waiting().length > 0;
  }

  /** In the quiet phase the person decides once, and waits. */
  private waiting(): ApprovalRecord[] {
    const { life, isQuiet } = this.world;
    const isOpen = ({ run, state, id }: ApprovalRecord) =>
      life.kernel.tail(stream.run(run))?.context.calls[Number(id.split('.')[1]) - 1]?.state ===
      state;
    return life.runtime.approvals.list().filter((one) => !isQuiet || isOpen(one));
  }

  /** Checks an event of a call as it becomes durable. `before`: the events of its run. */
  check(alias: string, before: readonly StoredEvent[], { type, data }: StoredEvent): void {
    const { call } = data;
    if (call === undefined) return;
    const count = (...types: string[]) =>
      before.filter((event) => types.includes(event.type) && event.data.call === call).length;
    if (type === 'run.tool_allowed' || type === 'run.tool_denied')
      hold(
        'decided-once',
        count('run.tool_allowed', 'run.tool_denied') === 0,
        () => `call ${call} of ${alias} is decided twice`,
      );
    if (type === 'run.tool_finished' && data.is_error !== true)
      hold(
        'call-done',
        this.executed.has(`${before[0]?.stream}.${call}`),
        () => `call ${call} of ${alias} has a result, and was not carried out`,
      );
    if (type !== 'run.tool_started') return;
    const asked = before.find(
      (event) => event.type === 'run.tool_requested' && event.data.call === call,
    )?.data;
    const starts = count('run.tool_started');
    const repeats = before.filter(
      (event) =>
        event.type === 'run.tool_decided' &&
        event.data.call === call &&
        event.data.decision === 'repeat',
    ).length;
    const name = `${asked?.server}/${asked?.tool}`;
    hold(
      'call-once',
      (starts <= repeats || TOOLS[name as ToolName]?.repeatable) && count('run.tool_allowed') === 1,
      () => `call ${call} of ${alias} (${name}) is started ${starts + 1} times, ${repeats} allowed`,
    );
  }

  private begin(server: string, id: string): Promise<ToolResult> {
    const isAhead = server in toolsOfSvc;
    if (!isAhead) this.work(id);
    return new Promise((resolve, reject) => {
      const end = (answer: ToolResult | SvcError) =>
        answer instanceof SvcError ? reject(answer) : resolve(answer);
      this.open.add({ id, isAhead, end });
    });
  }

  private work(id: string): void {
    const { world } = this;
    const [run_id = '', call] = id.split('.');
    const run = world.oracle.runs.get(run_id);
    const times = (this.executed.get(id) ?? 0) + 1;
    this.executed.set(id, times);
    const started = run?.snapshot.context.calls[Number(call) - 1]?.starts ?? 0;
    world.note(() => `  call ${call} of ${run?.alias} is carried out`);
    world.stats.count('calls carried out');
    world.guard(() =>
      hold(
        'call-started',
        times <= started,
        () => `call ${call} of ${run?.alias} is carried out ${times} times, and started ${started}`,
      ),
    );
  }

  private send(id: string, decision: 'allow' | 'deny' | 'repeat' | 'result' | 'skip'): void {
    const { world } = this;
    this.decisions += 1;
    const by = `person ${this.decisions}`;
    const [run_id = ''] = id.split('.');
    const alias = world.oracle.aliasOf(run_id);
    const isRecorded = () =>
      world.oracle.runs.get(run_id)?.events.some(({ data }) => data.by === by) === true;
    world.stats.count('decisions');
    world.call(
      `${by} says ${decision} to ${alias}.${id.split('.')[1]}`,
      world.life.runtime.approvals.decide(id, { decision, result: 'It is done.' }, by),
      {
        ok: () => hold('decided', isRecorded(), () => `${by} decided, and the log has it not`),
        error: (error) => {
          allowed(error, DECISION_ERRORS);
          hold(
            'decided',
            error.code !== 'approval_decided' || !isRecorded(),
            () => `${by} was refused, and decided`,
          );
        },
      },
    );
  }
}

const YES_OR_NO = ['allow', 'allow', 'deny'] as const;
const DECISION_ERRORS = [
  'approval_decided',
  'approval_unknown',
  'invalid_request',
  'daemon_stopping',
  'not_ready',
  'store_failed',
  'store_full',
  'store_stalled',
];
const run = () => Promise.reject(new Error('the simulation carries it out'));
