import type { Edge, MachineName } from './edges.ts';

/** The edges that a test cannot cause in a running daemon, each with the reason. */
export interface Exemption {
  edges: RegExp;
  why: string;
}

const UNCAUGHT =
  'only an uncaught error, a bug, leads here; a failed log also ends the process, and records nothing';

export const exemptions: Record<MachineName, readonly Exemption[]> = {
  daemon: [
    {
      edges: /^starting\.binding \| daemon\.(stop_requested|start_deadline_passed) /,
      why: 'two addresses are bound within milliseconds, and nothing outside can hold that',
    },
    {
      edges: /^starting\.(binding|opening) \| daemon\.failed /,
      why: 'the log is not open: only the exit code and the log lines say what happened',
    },
    {
      edges: /^starting\.recovering \| daemon\.start_deadline_passed /,
      why: 'each step of the recovery moves the deadline: it takes a disk that falls silent in these milliseconds, and answers half a second after it',
    },
    {
      edges: /^running\.disk_stalled \| daemon\.(run_settled|history_pruned|store_filled) /,
      why: 'while a commit is late no run settles, history is removed in the same thread, and the reserve keeps the disk from being full',
    },
    { edges: / \| daemon\.failed \| failed$/, why: UNCAUGHT },
  ],
  run: [
    {
      edges: /^awaiting_\w+ \| run\.deadline_passed /,
      why: 'while a run waits for a person, none of its time passes',
    },
    {
      edges: /^awaiting_\w+ \| run\.failed /,
      why: 'a wrong call fails its run, and a run with a call that svc has not judged is calling',
    },
    {
      edges: /^starting \| run\.(turn_completed|asked_again) /,
      why: 'it takes a crash between the last recorded piece of an answer and its end, which are one step of the engine',
    },
  ],
  tool_call: [
    {
      edges:
        /^(made|allowed) \| run\.tool_lost |^made \| run\.recovered |^lost \| run\.tool_decided \| made$/,
      why: 'it takes three boots that end at one call; test/runtime/runs/given-up.test.ts has them, without processes',
    },
    {
      edges: /^allowed \| run\.tool_finished /,
      why: 'a call is recorded as started before its server is asked; logs of 1.0.0-rc.1 have this edge',
    },
    {
      edges: /^(requested|allowed|started|lost) \| run\.failed /,
      why: 'a wrong call fails its run before any other call of its turn is requested',
    },
  ],
  provider: [],
  engine: [
    {
      edges: /^stopping\.killed \| engine\.deadline_passed /,
      why: 'it takes a process that outlives SIGKILL',
    },
  ],
  pull: [
    {
      edges: /^verifying\.placing \| pull\.cancel_requested /,
      why: 'between the hash and the new name of the file lie microseconds',
    },
    {
      edges: /^cancelling \| pull\.completed /,
      why: 'it takes a cancel between the hash and the new name of the file: microseconds',
    },
  ],
  mcp: [],
  conversation: [],
  lease: [{ edges: /./, why: 'these daemons share no database; the tests of the fleet have one' }],
};

export function exemptionOf(name: MachineName, edge: Edge): string | null {
  return exemptions[name].find(({ edges }) => edges.test(edge))?.why ?? null;
}
