import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { makeHome } from '../helpers/svc.ts';
import { hasTerminal, onTerminal, playing, type Script } from '../helpers/terminal.ts';
import { type FakeDaemon, output, run, suiteWithDaemon } from './fake-daemon.ts';

/** svc chat, from a pipe and at a terminal. */
const test = suiteWithDaemon('svc chat');
const onTty = hasTerminal ? test : test.skip;

/**
 * Each turn is answered with its number, and is a run of the conversation of the first one. `none`
 * is the error of a request for the last conversation.
 */
function answering(daemon: FakeDaemon, none?: object): void {
  let turn = 0;
  knowing(daemon);
  daemon.on('run.start', ({ params, error, event, result }) => {
    if (none !== undefined && params.conversation === 'last') return error(none);
    turn += 1;
    const begun = { ...run, id: `run_${turn}`, conversation: 'run_1', prompt: params.prompt };
    const record = turn === 1 ? begun : { ...begun, continues: `run_${turn - 1}` };
    event({ run: record });
    event(output(`answer ${turn}`, turn));
    result({ ...record, state: 'completed', output: `answer ${turn}` });
  });
}

/** The daemon says who answers, and has the models of `run`. */
function knowing(daemon: FakeDaemon): void {
  daemon.on('run.next', ({ params: { model = 'tiny', conversation }, result, error }) => {
    if (conversation === 'last') return error(new SvcError('run_unknown', 'None here.').body());
    const [provider, name] = String(model).includes('/')
      ? String(model).split('/')
      : ['local', model];
    const place = conversation === undefined ? {} : { conversation };
    result({ provider, model: name, cloud: provider !== 'local', ...place });
  });
  const named = (provider: string, name: string) => ({ id: `${provider}/${name}`, provider, name });
  daemon.on('model.list', ({ result }) =>
    result({ models: [named('local', 'small'), named('local', 'big'), named('far', 'gpt')] }),
  );
  daemon.on('model.show', ({ error }) =>
    error(new SvcError('model_unknown', 'No such file.').body()),
  );
  daemon.on('model.aliases', ({ result }) => result({ aliases: {} }));
  daemon.on('run.list', ({ result }) =>
    result({ runs: [{ ...run, prompt: 'again' }, run], next: null }),
  );
}

const started = ({ asked }: FakeDaemon) =>
  asked
    .filter(({ method }) => method === 'run.start')
    .map(({ params: { prompt, conversation, continues, system, model } }) =>
      Object.fromEntries(
        Object.entries({ prompt, conversation, continues, system, model }).filter(
          ([, value]) => value !== undefined,
        ),
      ),
    );

test('from a pipe each line is a turn of one conversation, and /exit ends it', async ({
  home,
  daemon,
}) => {
  answering(daemon);
  const lines = ['one', '', 'two\\', 'lines', '/retry', '/model big', '/system be kind', 'four'];
  const outcome = await home.svc(['chat', '--model', 'small'], {
    stdin: `${[...lines, '/new', 'five', '/exit', 'six'].join('\n')}\n`,
  });
  assert.is(outcome.code, 0, outcome.stderr);
  assert.is(outcome.stdout, [1, 2, 3, 4, 5].map((turn) => `answer ${turn}\n`).join(''));
  assert.equal(started(daemon), [
    { prompt: 'one', model: 'small' },
    { prompt: 'two\nlines', conversation: 'run_1', model: 'small' },
    { prompt: 'two\nlines', conversation: 'run_1', continues: 'run_1', model: 'small' },
    { prompt: 'four', conversation: 'run_1', model: 'big', system: 'be kind' },
    { prompt: 'five', model: 'big', system: 'be kind' },
  ]);
});

onTty('a chat that may start no daemon starts none', async () => {
  const alone = makeHome();
  try {
    const leave = playing([['> ', '\u0004']]);
    const { code, text } = await onTerminal(['chat', '--no-start'], alone.env, leave);
    assert.is(code, 0, text);
    assert.not.ok(existsSync(alone.paths.runtime));
  } finally {
    await alone.close();
  }
});

test('/list shows conversations, and /load continues one or leaves all as it was', async ({
  home,
  daemon,
}) => {
  answering(daemon);
  daemon.on('run.next', ({ params: { conversation }, result, error }) =>
    conversation === 'run_0'
      ? error(new SvcError('run_unknown', 'There is no run run_0.').body())
      : result({ provider: 'local', model: 'tiny', cloud: false, conversation }),
  );
  const { id } = run;
  const begun = { id, created_at: new Date().toISOString() };
  const once = { title: null, prompt: 'hi', turns: 1, client: 'command line 7', run: begun };
  const conversations = [
    ...[1, 2, 3, 4].map((number) => ({ ...once, id: `run_once${number}` })),
    { ...once, id: 'run_7', prompt: 'of\u001b[2J "old"', turns: 2 },
    { ...once, id: 'run_8', client: 'chat 7' },
    { ...once, id: 'run_9', title: 'Birds' },
  ];
  daemon.on('conversation.list', ({ result }) => result({ conversations, next: null }));
  const { code, stderr } = await home.svc(['chat'], {
    stdin: '/list\n/load run_7\n/load run_0\n/load\nagain\n',
  });
  assert.is(code, 2);
  const shown = stderr.slice(0, stderr.indexOf('The next turn')).replace(/\S+ m?s ago/g, '1 s ago');
  assert.is(
    shown,
    '  run_7  1 s ago, 2 turns: of\ufffd[2J "old"\n  run_8  1 s ago: hi\n  run_9  1 s ago: Birds\n' +
      'Asked once:\n' +
      [1, 2, 3].map((number) => `  run_once${number}  1 s ago: hi\n`).join(''),
  );
  assert.not.ok(stderr.includes('\u001b'), 'a title controls no terminal');
  assert.match(stderr, 'The next turn: local/tiny');
  assert.match(stderr, 'There is no run run_0.\nhint: /list shows conversations.\n');
  assert.match(stderr, 'hint: /list shows them.');
  assert.equal(started(daemon), [{ prompt: 'again', conversation: 'run_7' }]);
});

test('the tokens that asked turns of the conversation are named, once while they are the same', async ({
  home,
  daemon,
}) => {
  knowing(daemon);
  const tokens = [[], ['phone'], ['phone'], ['phone', 'tablet']];
  daemon.on('run.start', ({ event, result }) => {
    const begun = { ...run, conversation: 'run_1', turns_of: tokens.shift() };
    event({ run: begun });
    result({ ...begun, state: 'completed', output: 'ok' });
  });
  const { code, stderr } = await home.svc(['chat'], { stdin: 'a\nb\nc\nd\n' });
  assert.is(code, 0, stderr);
  assert.equal(
    stderr.split('\n').filter((line) => line.startsWith('This conversation')),
    [
      'This conversation has turns of the token phone.',
      'This conversation has turns of the token phone, tablet.',
    ],
  );
});

test('a turn that fails ends no chat, and sets its exit code', async ({ home, daemon }) => {
  knowing(daemon);
  daemon.on('run.start', ({ params, error, event, result }) => {
    if (params.prompt === 'bad')
      return error({ code: 'busy', message: 'No.', hint: 'Later.', retryable: true });
    event({ run });
    event(output('fine', 1));
    result({ ...run, state: 'completed', output: 'fine' });
  });
  const { code, stdout, stderr } = await home.svc(['chat'], { stdin: 'bad\ngood\n/nothing\n' });
  assert.equal([code, stdout], [2, 'fine\n']);
  assert.match(stderr, 'No.');
  assert.match(stderr, 'The chat has no command /nothing.');
});

test('a conversation is saved as a new private file', async ({ home, daemon }) => {
  answering(daemon);
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'one' }] }];
  daemon.on('run.get', ({ result }) => result({ ...run, messages, output: 'answer 1' }));
  const file = join(home.folder, 'chat.md');
  const stdin = `/save ${file}\none\n/save\n/save ${file}\n`;
  const { stderr } = await home.svc(['chat'], { stdin });
  assert.match(stderr, 'error: There is no answer yet.\nhint: Ask something first.\n');
  assert.match(
    stderr,
    'error: /save needs the name of a file.\nhint: For example: /save chat.md\n',
  );
  assert.match(readFileSync(file, 'utf8'), '## User\n\none\n\n## Assistant\n\nanswer 1\n');
  assert.is(statSync(file).mode & 0o777, 0o600);
  const again = await home.svc(['chat'], { stdin: `one\n/save ${file}\n` });
  assert.match(again.stderr, 'exists');
  const env = { HOME: home.folder, USERPROFILE: home.folder };
  await home.svc(['chat'], { stdin: 'one\n/save ~/other.md\n', env });
  assert.match(readFileSync(join(home.folder, 'other.md'), 'utf8'), 'answer 1');
});

test('a folder without a conversation begins one, and says it once', async ({ home, daemon }) => {
  answering(daemon, { code: 'run_unknown', message: 'None was begun here.', retryable: false });
  const { code, stdout, stderr } = await home.svc(['chat', '-c'], { stdin: 'one\ntwo\n' });
  assert.is(code, 0, stderr);
  assert.is(stdout, 'answer 1\nanswer 2\n');
  assert.is(stderr.split('A new conversation begins.').length, 2, stderr);
  assert.equal(started(daemon), [
    { prompt: 'one', conversation: 'last' },
    { prompt: 'one' },
    { prompt: 'two', conversation: 'run_1' },
  ]);
});

onTty(
  'at a terminal Ctrl-C stops the answer and not the chat, and lines are kept privately',
  async ({ home, daemon }) => {
    let stop = () => {};
    knowing(daemon);
    daemon.on('run.start', ({ params, event, result }) => {
      event({ run });
      if (params.prompt !== 'long') {
        event(output('short answer', 1));
        return result({ ...run, state: 'completed', output: 'short answer' });
      }
      event(output('it begins ', 1));
      stop = () => result({ ...run, state: 'cancelled', output: 'it begins' });
    });
    daemon.on('run.cancel', ({ result }) => {
      result({ ...run, state: 'cancelled' });
      stop();
    });
    const script: Script = [
      ['> ', 'long\r'],
      ['it begins', '\u0003'],
      ['> ', 'next\r'],
      ['short answer', ''],
      ['> ', '\u0003'],
      ['ends the chat', ''],
      ['> ', '\u0004'],
    ];
    const { code, text } = await onTerminal(['chat'], home.env, playing(script));
    assert.is(code, 0, text);
    assert.equal(
      started(daemon).map(({ prompt }) => prompt),
      ['long', 'next'],
    );
    const file = join(home.paths.data, 'chat-history');
    assert.is(readFileSync(file, 'utf8'), 'long\nnext\n');
    assert.is(statSync(file).mode & 0o777, 0o600);
  },
);

onTty('Ctrl-C drops the lines that were pasted with the question', async ({ home, daemon }) => {
  let stop = () => {};
  knowing(daemon);
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('it begins ', 1));
    stop = () => result({ ...run, state: 'cancelled', output: 'it begins' });
  });
  daemon.on('run.cancel', ({ result }) => {
    result({ ...run, state: 'cancelled' });
    stop();
  });
  let step = 0;
  const { code, text } = await onTerminal(['chat'], home.env, (typed, seen) => {
    if (step === 0 && seen.includes('> ')) step = typed.write('one\rtwo\rthree\r') ? 1 : 1;
    if (step === 1 && seen.includes('it begins')) step = typed.write('\u0003') ? 2 : 2;
    if (step === 2 && /cancelled[\s\S]*> /.test(seen)) step = typed.write('\u0004') ? 3 : 3;
    return step === 3;
  });
  assert.is(code, 0, text);
  assert.equal(
    started(daemon).map(({ prompt }) => prompt),
    ['one'],
  );
});

onTty(
  'a call of a tool is asked about on the spot, and the chat goes on',
  async ({ home, daemon }) => {
    knowing(daemon);
    const call = { call: 1, server: 'files', tool: 'write', approval: 'ask', arguments: '{"a":1}' };
    let decided = () => {};
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      event({ run_id: run.id, seq: 1, type: 'run.tool_requested', data: call });
      decided = () => result({ ...run, state: 'completed', output: 'It is written.' });
    });
    daemon.on('approval.get', ({ params, result }) =>
      result({ ...params, target: 'svc:files /a', description: null, arguments: '{"a":1}' }),
    );
    daemon.on('approval.decide', ({ result }) => {
      result({});
      decided();
    });
    const script: Script = [
      ['> ', 'write it\r'],
      ['files/write. Allow it?', 'show\r'],
      ['"a": 1', ''],
      ['Allow it?', 'y\r'],
      ['It is written.', ''],
      ['> ', '\u0004'],
    ];
    const args = ['chat', '--tools', 'files'];
    const { code, text } = await onTerminal(args, home.env, playing(script));
    assert.is(code, 0, text);
    assert.equal(
      daemon.asked.filter(({ method }) => method === 'approval.decide').map(({ params }) => params),
      [{ id: `${run.id}.1`, decision: 'allow' }],
    );
  },
);

onTty('a pasted text of several lines is one message', async ({ home, daemon }) => {
  answering(daemon);
  const paste = (text: string) => `\u001b[200~${text}\u001b[201~`;
  const script: Script = [
    ['> ', `see: ${paste('one\r\rtwo')} end\r`],
    ['answer 1', ''],
    ['> ', paste('/exit\rthree\r')],
    ['three', '\u0003'],
    ['> ', 'four\r'],
    ['answer 2', ''],
    ['> ', '\u0004'],
  ];
  const { code, text } = await onTerminal(['chat'], home.env, playing(script));
  assert.is(code, 0, text);
  assert.equal(
    started(daemon).map(({ prompt }) => prompt),
    ['see: one\n\ntwo end', 'four'],
    'Enter sends it, and Ctrl-C drops it',
  );
  const [marks, ends] = ['h', 'l'].map((end) => text.split(`\u001b[?2004${end}`).length);
  assert.is(marks, ends, 'between the messages the terminal is as usual');
});

test('a chat sets, attaches and presets, and refuses what is not there', async ({
  home,
  daemon,
}) => {
  answering(daemon);
  writeFileSync(join(home.folder, 'note.txt'), 'the note');
  const presets = { short: { system: 'Be short.', template: 'Now: {prompt}' } };
  writeFileSync(home.paths.config, JSON.stringify({ presets }));
  const lines = [
    '/model nosuch',
    '/model far/gpd',
    '/set',
    '/set temperatur 1',
    '/set temperature 9',
    '/set temperature 0',
    '/set',
    '/modle',
    '/preset none',
    '/preset short',
    `/file ${join(home.folder, 'gone')}`,
    `/file ${join(home.folder, 'note.txt')}`,
    '/stats',
    'one',
    'two',
  ];
  const { stdout, stderr } = await home.svc(['chat'], { stdin: `${lines.join('\n')}\n` });
  assert.is(stdout, 'answer 1\nanswer 2\n', stderr);
  for (const said of [
    'No such file.',
    'far does not list gpd. Did you mean: far/gpt?',
    'Did you mean: /set temperature?',
    'must be a number from 0 to 2',
    'Did you mean: /model?',
    'There is no preset "none"',
    'there is no such file',
    /^temperature 0$/m,
    'With the next message: ',
    /^Nothing is set here\. There are: .*temperature/m,
    'Each answer says how long it took.',
  ])
    assert.match(stderr, said);
  const [one, two] = daemon.asked
    .filter(({ method }) => method === 'run.start')
    .map(({ params }) => params);
  assert.match(String(one?.prompt), /^Now: one\n\nFile note\.txt:\nthe note$/);
  assert.equal([one?.system, one?.temperature, one?.model], ['Be short.', 0, 'far/gpd']);
  assert.is(two?.prompt, 'Now: two', 'a file goes with one message');
});

onTty('a chat says with whom one talks, and Tab completes', async ({ home, daemon }) => {
  answering(daemon);
  const script: Script = [
    ['local/tiny · on this machine · a new conversation', ''],
    ['> ', '/mo\t'],
    ['/model', ' bi\t'],
    ['local/big', '\r'],
    ['The next turn: local/big', ''],
    ['> ', 'a\tb\r'],
    ['answer 1', ''],
    ['> ', '\u0004'],
  ];
  const { code, text } = await onTerminal(['chat'], home.env, playing(script));
  assert.is(code, 0, text);
  assert.equal(started(daemon), [{ prompt: 'a\tb', model: 'local/big' }]);
});

onTty('a chat that continues says what', async ({ home, daemon }) => {
  answering(daemon);
  const args = ['chat', '--conversation', 'run_1', '--model', 'far/gpt'];
  const env = { ...home.env, NO_COLOR: '1', COLUMNS: '80' };
  const { text } = await onTerminal(args, env, playing([['> ', '\u0004']]));
  assert.match(
    text,
    'far/gpt · cloud: what you type leaves this machine · continues 2 turns · last:\nagain\n',
  );
});

test('chat -c continues a conversation of the folder before what was asked once there', async ({
  home,
  daemon,
}) => {
  answering(daemon);
  const origin = process.cwd();
  const later = { ...run, conversation: 'run_3', continues: 'run_3' };
  const pages = [
    [
      { ...run, id: 'run_9', origin },
      { ...later, id: 'run_8', origin: '/elsewhere', conversation: 'run_2' },
    ],
    [
      { ...run, id: 'run_7', origin },
      { ...later, id: 'run_6', origin },
    ],
  ];
  daemon.on('run.list', ({ params: { before }, result }) =>
    result(before === 'run_8' ? { runs: pages[1], next: null } : { runs: pages[0], next: 'run_8' }),
  );
  assert.is((await home.svc(['chat', '-c'], { stdin: 'one\n' })).code, 0);
  const chat = { ...run, id: 'run_5', origin, client: 'chat 7' };
  daemon.on('run.list', ({ result }) => result({ runs: [...(pages[0] ?? []), chat], next: null }));
  assert.is((await home.svc(['chat', '-c'], { stdin: 'two\n' })).code, 0);
  assert.equal(started(daemon), [
    { prompt: 'one', conversation: 'run_3' },
    { prompt: 'two', conversation: 'run_5' },
  ]);
});

onTty('Up brings a pasted text back as it was', async ({ home, daemon }) => {
  answering(daemon);
  const UP = '\u0010';
  const type = (text: string): Script => [
    ['> ', `${text}\r`],
    ['answer', ''],
  ];
  const script: Script = [
    ...type('see: \u001b[200~one\r\rtwo\u001b[201~'),
    ...type('other'),
    ...type(`${UP}${UP} end`),
    ['> ', '\u0004'],
  ];
  const pasted = 'see: one\n\ntwo';
  const { code, text } = await onTerminal(['chat'], home.env, playing(script));
  assert.is(code, 0, text);
  const again: Script = [...type(`${UP}${UP}${UP}`), ['> ', '\u0004']];
  await onTerminal(['chat'], home.env, playing(again));
  assert.equal(
    started(daemon).map(({ prompt }) => prompt),
    [pasted, 'other', `${pasted} end`, pasted],
  );
});

onTty('svc run without a prompt is a chat at a terminal', async ({ home, daemon }) => {
  answering(daemon);
  let typing = 0;
  const { code, text } = await onTerminal(['run'], home.env, (typed, seen) => {
    if (typing === 0 && seen.includes('> ')) typing = typed.write('hello\r') ? 1 : 1;
    if (typing === 1 && /answer 1[\s\S]*> /.test(seen)) typing = typed.write('\u0004') ? 2 : 2;
    return typing === 2;
  });
  assert.is(code, 0, text);
  assert.match(text, 'Ctrl-D ends the chat');
  assert.equal(started(daemon), [{ prompt: 'hello' }]);
});

onTty('a flag of one request makes no chat', async ({ home, daemon }) => {
  answering(daemon);
  for (const flag of ['--preset', '--schema', '--idempotency-key']) {
    const { code, text } = await onTerminal(['run', flag, 'x'], home.env, () => true);
    assert.is(code, 2, text);
    assert.match(text, 'There is no prompt');
  }
  assert.equal(started(daemon), []);
});

test.run();
