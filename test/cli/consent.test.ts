import * as assert from 'uvu/assert';
import type { Home } from '../helpers/svc.ts';
import { hasTerminal, onTerminal } from '../helpers/terminal.ts';
import { completed, type FakeDaemon, output, run, suiteWithDaemon } from './fake-daemon.ts';

/** A call of a tool is decided at the terminal by what is typed after its question, and whole. */
const test = suiteWithDaemon('consent at the terminal');
const onTty = hasTerminal ? test : test.skip;

const QUESTION = 'Allow it? (yes, no, always, show) ';
const TARGET = 'npx -y server-git --root "/home/me/my work"';
const waiting = {
  server: 'git',
  tool: 'git_add',
  run: 'run_1',
  description: null as string | null,
  target: TARGET,
  changes: null as string | null,
  arguments: '{"s":"rm -rf"}',
  state: 'requested',
  since: '2026-01-02T03:04:05.000Z',
  until: null,
};

/** What a person types when the terminal shows a text behind the one before. */
type Step = readonly [shows: string, types: string | (() => void)];

/** Typed while the model works, and typed at the question. */
interface Case {
  before: string;
  after: readonly Step[];
}

interface Asked {
  decided: Record<string, unknown>[];
  text: string;
  code: number | null;
}

/** A run that asks about one call after the other. Later runs answer at once. */
async function decisions(
  command: string[],
  { home, daemon }: { home: Home; daemon: FakeDaemon },
  cases: readonly Case[],
  { first = [], last = [], call = waiting }: { first?: Step[]; last?: Step[]; call?: object } = {},
): Promise<Asked> {
  const decided: Asked['decided'] = [];
  let [seq, request, goOn] = [2, (_: number) => {}, (_: number) => {}];
  daemon.on('run.next', ({ result }) => result({ provider: 'local', model: 'tiny', cloud: false }));
  daemon.on('approval.get', ({ params, result }) => result({ ...call, id: params.id }));
  daemon.on('approval.decide', ({ params, result }) => {
    decided.push(params);
    result({ ...call, id: params.id });
    goOn(Number(String(params.id).split('.')[1]));
  });
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    if (seq > 2) return result(completed('done'));
    const hear = (type: string, data: object) => event({ run_id: 'run_1', seq: seq++, type, data });
    const { server, tool, arguments: args } = waiting;
    request = (number) => {
      const asked = { call: number, server, tool, arguments: args, approval: 'ask' };
      hear('run.tool_requested', asked);
    };
    goOn = (number) => {
      hear('run.tool_denied', { call: number, by: 'test', reason: 'enough' });
      if (number < cases.length) event(output(`case${number + 1} is next\n`, seq++));
      else result(completed('done'));
    };
    daemon.on('run.cancel', (cancel) => {
      const cancelled = { ...completed(''), state: 'cancelled' };
      cancel.result(cancelled);
      result(cancelled);
    });
    event(output('case1 is next\n', seq++));
  });
  const steps = cases.flatMap(({ before, after }, index): Step[] => [
    [`case${index + 1} `, before],
    // The terminal shows what it has got.
    [before.match(/[ -~]+/g)?.at(-1) ?? '', () => request(index + 1)],
    ...after,
  ]);
  let [at, from] = [0, 0];
  const { text, code } = await onTerminal(command, home.env, (typed, seen) => {
    const all = [...first, ...steps, ...last];
    for (; at < all.length; at += 1) {
      const [shows, types] = all[at] as Step;
      const found = seen.indexOf(shows, from);
      if (found < 0) return false;
      from = found + shows.length;
      if (typeof types === 'function') types();
      else if (types !== '') typed.write(types);
    }
    return true;
  });
  return { decided, text, code };
}

const RUN = ['run', '-p', 'local', '--tools', 'git', 'go'];
const CHAT = ['chat', '-p', 'local', '--tools', 'git'];
const NO: Step = [QUESTION, 'no\r'];
/** What people type while a model works, and what a hurried finger does. */
const BEFORE = [
  'all of them please\r',
  'another idea: also list b\r',
  'y\r',
  'yes\r',
  'always\r',
  'yes',
  'y',
  'a',
  'yes\ryes\ryes\r',
  'and then convert it\ry',
  's\ry\r',
  'yes\u0004yes\r',
  '\u001b[200~yes\r\u001b[201~yes\r',
];

onTty('nothing that was typed before a question decides about a call', async (context) => {
  const cases = BEFORE.map((before) => ({ before, after: [[QUESTION, '\r'] as const, NO] }));
  const { decided, text } = await decisions(RUN, context, cases);
  const denied = BEFORE.map((_, index) => ({ id: `run_1.${index + 1}`, decision: 'deny' }));
  assert.equal(decided, denied, text);
});

onTty('in a chat it is the next message, and the open line its beginning', async (context) => {
  const { decided, text } = await decisions(
    CHAT,
    context,
    [{ before: 'yes\rand always', after: [NO] }],
    {
      first: [['> ', 'hello\r']],
      last: [
        ['yes', ''],
        ['\u001b[3Gand always', ' more\r'],
        ['> ', '/exit\r'],
      ],
    },
  );
  assert.equal(decided, [{ id: 'run_1.1', decision: 'deny' }], text);
  const prompts = context.daemon.asked
    .filter(({ method }) => method === 'run.start')
    .map(({ params }) => params.prompt);
  assert.equal(prompts, ['hello', 'yes', 'and always more'], text);
});

onTty('a whole word of the question decides, or its first letter alone', async (context) => {
  const others = 'abort;absolutely not;are you sure?;yikes;yes please;nope;ye;alway;1;;y y';
  const wrong = others.split(';').map((word): Step => [QUESTION, `${word}\r`]);
  const answers = ['y\r', 'YES\r', 'n\r', 'No\r', 'a\r', ' always \r', '\u0004'];
  const cases = answers.map((answer, index) => ({
    before: ' ',
    after: [...(index === 0 ? wrong : []), [QUESTION, answer] as const],
  }));
  const { decided, text } = await decisions(RUN, context, cases);
  const [allow, deny] = [{ decision: 'allow' }, { decision: 'deny' }];
  const always = { ...allow, always: true };
  assert.equal(
    decided.map(({ id: _, ...rest }) => rest),
    [allow, allow, deny, deny, always, always, deny],
    text,
  );
  const again = text.split('Type one of these words: yes, no, always, show.\n');
  assert.is(again.length - 1, wrong.length, text);
  const undo = 'is allowed from now on. To undo it: svc mcp set git --tool git_add=ask';
  const plain = text.replaceAll('\n', ' ');
  assert.is(plain.split(`git/git_add of ${TARGET} ${undo} `).length - 1, 2, text);
});

onTty(
  'the question comes with server and arguments, cut, and show has the rest',
  async (context) => {
    const lines = Array.from({ length: 40 }, (_, index) => `+line ${index}`).join('\n');
    // The break of the terminal itself would bring its end to the first column.
    const long = `${' '.repeat(69)}git/git_add is allowed.`;
    const call = {
      ...waiting,
      description: 'It writes.',
      changes: `--- /a.txt\n+++ /a.txt\n@@ -1,0 +1,40 @@\n${lines}\n`,
      arguments: JSON.stringify({ long }),
    };
    const show = ['s\r', 'show\r'].map((answer): Step => [QUESTION, answer]);
    const cases = [{ before: ' ', after: [...show, NO] }];
    const { text } = await decisions(RUN, context, cases, { call });
    const [first = '', second = '', third = ''] = text.split(/^.*wants to call.*$/m);
    const target = `server\n  ${TARGET}\n`;
    assert.ok(first.includes(`${target}changes\n  --- /a.txt\n  +++ /a.txt\n`), first);
    assert.match(first, / {2}\+line 15\n… 24 more lines\. To see them, answer: show\n/);
    assert.not.match(first, /line 16|It writes|arguments/);
    for (const shown of [second, third]) {
      assert.ok(shown.includes(`${target}says\n  It writes.\nchanges\n`), shown);
      assert.match(shown, / {2}\+line 39\narguments\n {2}\{\n/);
      for (const line of shown.split('\n')) assert.ok(line.length <= 80, line);
      assert.not.match(shown, /^git\/git_add is allowed/m);
    }
  },
);

onTty('Ctrl-C at the question ends the run, and decides nothing', async (context) => {
  const cases = [{ before: ' ', after: [[QUESTION, '\u0003'] as const] }];
  const { decided, code, text } = await decisions(RUN, context, cases);
  assert.equal([decided, code], [[], 130], text);
  assert.ok(context.daemon.asked.some(({ method }) => method === 'run.cancel'));
});

test.run();
