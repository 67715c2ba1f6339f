import * as assert from 'uvu/assert';
import { run as record, suiteWithDaemon } from './fake-daemon.ts';

/** What tool servers and models wrote, where a person reads it and decides. */

const HIDDEN = '\u200b\u{e0041}\u2066';
const HOSTILE = `\u001b[2J\u001b]0;owned\u0007${HIDDEN}Fine.\r\n\nrun    run_9\nAllowed.\u202e`;
const test = suiteWithDaemon('texts of tools');

const call = {
  id: 'run_1.1',
  run: 'run_1',
  server: 'x\u001b[1A',
  tool: 'get\nrun    run_9',
  description: HOSTILE,
  target: HOSTILE,
  changes: HOSTILE,
  arguments: `{"path":"/safe","path":${JSON.stringify(HOSTILE)}}`,
  state: 'requested',
  since: '2026-01-02T03:04:05.000Z',
  until: null,
  report: `2 of 3\nrun    run_9${HOSTILE}`,
};

function isHarmless(text: string): void {
  assert.ok(text.length > 20);
  assert.not.match(text, /[^\P{Cc}\n]|\p{Cf}/u);
  assert.not.match(text, /^(run {4}run_9|Allowed\.)/m);
}

test('approvals show and list move no cursor, hide nothing and forge no line', async ({
  home,
  daemon,
}) => {
  daemon.on('approval.get', ({ result }) => result(call));
  daemon.on('approval.list', ({ result }) => result({ approvals: [call] }));
  const shown = await home.svc(['approvals', 'show', 'run_1.1']);
  isHarmless(shown.stdout + shown.stderr);
  // A field that is written twice shows as the server gets it, with what is invisible written out.
  assert.not.match(shown.stdout, /safe/);
  assert.match(shown.stdout, /\\u200b\\udb40\\udc41\\u2066Fine/);
  assert.is(shown.stdout.match(/Fine\./g)?.length, 5, 'all that is foreign');
  assert.match(shown.stdout, /^said {3}2 of 3 run {4}run_9/m);
  isHarmless((await home.svc(['approvals', 'list'])).stdout);
  isHarmless((await home.svc(['approvals', 'show', 'run_1.1', '--json'])).stdout);
});

test('a description of a tool forges no line of svc mcp show', async ({ home, daemon }) => {
  const tool = { name: 'get', policy: 'ask', changed: false, description: HOSTILE };
  const server = { state: 'ready', target: 'x', server: HOSTILE, trusted: false };
  daemon.on('mcp.show', ({ result }) =>
    result({
      ...server,
      env: [],
      headers: [],
      problems: [],
      tools: [{ ...tool, schema: { title: HOSTILE }, read_only: false, destructive: true }],
    }),
  );
  for (const more of [[], ['--full']])
    isHarmless((await home.svc(['mcp', 'show', 'x', ...more])).stdout);
});

test('the lines of svc run about its tools are lines', async ({ home, daemon }) => {
  const { server, tool, arguments: args } = call;
  daemon.on('run.start', ({ event, result }) => {
    event({ run: record });
    const hear = (type: string, data: object) =>
      event({ run_id: 'run_1', seq: 1, type, data: { call: 1, ...data } });
    hear('run.tool_requested', { server, tool, approval: 'ask', arguments: args });
    hear('run.tool_denied', { by: HOSTILE, reason: HOSTILE });
    result({ ...record, state: 'completed' });
  });
  const { stderr } = await home.svc(['run', 'go', '--provider', 'local', '--tools', 'x']);
  assert.match(stderr, /wants to call/);
  isHarmless(stderr);
});

test.run();
