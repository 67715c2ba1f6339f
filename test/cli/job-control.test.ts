import { existsSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { atTerminal, commandOf, hasTerminal, playing } from '../helpers/terminal.ts';
import { completed, output, run, suiteWithDaemon } from './fake-daemon.ts';

/** Ctrl-Z and fg at a shell, with a real terminal. */
const test = suiteWithDaemon('Ctrl-Z');
const onTty = hasTerminal && existsSync('/bin/sh') ? test : test.skip;

const CTRL_Z = '\u001a';
const [MARKED, UNMARKED] = ['\u001b[?2004h', '\u001b[?2004l'];
/** A shell with job control, which says how the terminal is. */
const SHELL = "PS1='sh# ' exec /bin/sh -i";
const STATE = "stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo)' | xargs echo is\r";
const USUAL = /is (icanon echo|echo icanon)\n/;

onTty(
  'a chat stops and continues, and the terminal is as usual meanwhile',
  async ({ home, daemon }) => {
    daemon.on('run.next', ({ result }) =>
      result({ provider: 'local', model: 'tiny', cloud: false }),
    );
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      event(output('the answer', 1));
      result(completed('the answer'));
    });
    const { code, text } = await atTerminal(
      SHELL,
      { ...home.env, ENV: '' },
      playing([
        ['sh# ', `${commandOf(['chat'])}\r`],
        ['\n\u001b[?2004h', ''],
        ['> ', 'half a mess'],
        ['half a mess', CTRL_Z],
        ['sh# ', STATE],
        ['sh# ', 'fg\r'],
        ['half a mess', 'age\r'],
        ['the answer', ''],
        ['> ', '\u0004'],
        ['sh# ', 'exit\r'],
      ]),
    );
    assert.is(code, 0, text);
    const [, stopped = '', continued = ''] = text.split('half a mess');
    assert.match(stopped, /Stopped/);
    assert.match(stopped, USUAL);
    assert.ok(stopped.startsWith(UNMARKED), stopped);
    assert.match(text.slice(text.indexOf('Stopped')), MARKED);
    assert.match(continued, 'the answer');
    assert.equal(
      daemon.asked
        .filter(({ method }) => method === 'run.start')
        .map(({ params }) => params.prompt),
      ['half a message'],
    );
  },
);

onTty('a question stops and continues', async ({ home, daemon }) => {
  const call = { call: 1, server: 'files', tool: 'write', approval: 'ask', arguments: '{"a":1}' };
  let decided = () => {};
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event({ run_id: run.id, seq: 1, type: 'run.tool_requested', data: call });
    decided = () => result(completed('It is written.'));
  });
  daemon.on('approval.get', ({ params, result }) =>
    result({ ...params, target: 'svc:files /a', description: null, arguments: '{"a":1}' }),
  );
  daemon.on('approval.decide', ({ result }) => {
    result({});
    decided();
  });
  const { code, text } = await atTerminal(
    SHELL,
    { ...home.env, ENV: '' },
    playing([
      ['sh# ', `${commandOf(['run', 'write', '--tools', 'files'])}\r`],
      ['Allow it? (yes, no, always, show) ', CTRL_Z],
      ['sh# ', STATE],
      ['sh# ', 'fg\r'],
      ['Allow it? (yes, no, always, show) ', 'yes\r'],
      ['It is written.', ''],
      ['sh# ', 'exit\r'],
    ]),
  );
  assert.is(code, 0, text);
  assert.match(text, USUAL);
});

test.run();
