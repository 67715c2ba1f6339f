import { stripVTControlCharacters } from 'node:util';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { widthOf } from '../../src/logs/width.ts';
import type { Home } from '../helpers/svc.ts';
import { hasTerminal, onTerminal, playing, type Script } from '../helpers/terminal.ts';
import { completed, run, suiteWithDaemon } from './fake-daemon.ts';

/** Notices and errors at a terminal are broken between words, whatever its width is. */
const test = suiteWithDaemon('notices');
const onTty = hasTerminal ? test : test.skip;

const WIDTHS = [40, 60, 80, 200];
const ID = 'run_01KB4Z8Q6N2X5T9V7W3Y1R0M8P';

/** What a terminal of this width shows, without the movements of an editor. */
async function shown(
  { env }: Home,
  columns: number,
  args: readonly string[],
  script?: Script,
): Promise<string> {
  const type = script === undefined ? undefined : playing(script);
  const { text } = await onTerminal(args, { ...env, NO_COLOR: '1', COLUMNS: `${columns}` }, type);
  return stripVTControlCharacters(text);
}

/** The lines fit, and are those of the text: none could have had the first word of the next one. */
function isBroken(lines: readonly string[], text: string, columns: number): void {
  assert.is(lines.join(' ').replace(/ +/g, ' '), text);
  for (const [index, line] of lines.entries()) {
    assert.ok(widthOf(line) <= columns, `${columns}: ${line}`);
    const next = lines[index + 1]?.trimStart().split(' ', 1)[0];
    if (next !== undefined) assert.ok(widthOf(`${line} ${next}`) > columns, `${columns}: ${line}`);
  }
}

onTty('an error and its hint', async ({ home, daemon }) => {
  const message =
    'The model "far" is not there, and 日本語の文 says that it was removed yesterday.';
  const hint = 'Choose another one with a name that is shorter, or wait until it is there again.';
  daemon.on('run.start', ({ error }) =>
    error(new SvcError('model_unknown', message, { hint }).body()),
  );
  for (const columns of WIDTHS) {
    const lines = (await shown(home, columns, ['run', 'hi'])).trimEnd().split('\n');
    const at = lines.findIndex((line) => line.startsWith('hint: '));
    isBroken(lines.slice(0, at), `error: ${message}`, columns);
    isBroken(lines.slice(at), `hint: ${hint}`, columns);
  }
  assert.is((await home.svc(['run', 'hi'])).stderr, `error: ${message}\nhint: ${hint}\n`);
});

onTty('the lines of a chat', async ({ home, daemon }) => {
  daemon.on('run.next', ({ result }) =>
    result({ provider: 'local', model: 'SmolLM2-135M-Instruct.Q4_1', cloud: false }),
  );
  const conversation = { id: ID, title: null, turns: 3, client: 'test' };
  daemon.on('conversation.list', ({ result }) =>
    result({ conversations: [{ ...conversation, prompt: 'say "hi" to all', run }], next: null }),
  );
  const script: Script = [
    ['> ', '/help\r'],
    ['"""', ''],
    ['> ', '/list\r'],
    ['"hi"', ''],
    ['> ', '\u0004'],
  ];
  for (const columns of WIDTHS) {
    const text = await shown(home, columns, ['chat'], script);
    for (const line of text.split('\n')) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`);
    const [head = '', rest = ''] = text.split('Type a message.');
    const who = 'local/SmolLM2-135M-Instruct.Q4_1 · on this machine · a new conversation';
    isBroken(head.trimEnd().split('\n'), who, columns);
    const begin = `Type a message.${rest.slice(0, rest.indexOf('\n>'))}`.trimEnd();
    isBroken(
      begin.split('\n'),
      'Type a message. /help lists the commands, and Ctrl-D ends the chat.',
      columns,
    );
    const list = text
      .slice(text.lastIndexOf(`  ${ID}`))
      .split('\n> ', 1)[0]
      ?.trimEnd();
    const about = (list ?? '').slice(ID.length + 2).replace(/\s+/g, ' ');
    assert.match(about, /^ \d+ days ago, 3 turns: say "hi" to all$/);
    assert.is(list?.includes('\n'), columns < 80, `${columns}: ${list}`);
  }
});

onTty('what model pull says of the memory', async ({ home, daemon }) => {
  const fit =
    'It needs about 1.3 GiB of memory, by its size; models may use 17.7 GiB, and 13.6 GiB are free.';
  daemon.on('model.pull', ({ event, result }) => {
    const record = {
      id: 'pull_1',
      file: 'tiny.gguf',
      choices: [],
      existing: false,
      error: null,
      retry_at: null,
      sha256: 'ab',
      verified: true,
      offset_bytes: 0,
      attempt: 1,
      bytes: 1,
      size_bytes: 1,
      fit: { text: fit },
    };
    event({ ...record, state: 'verifying', hashed_bytes: 0 });
    result({ id: 'local/tiny', name: 'tiny', capabilities: ['chat'] });
  });
  for (const columns of WIDTHS) {
    const text = await shown(home, columns, ['model', 'pull', 'tiny']);
    const [said = '', end = ''] = text.split('\r');
    isBroken(said.trimEnd().split('\n'), fit, columns);
    assert.match(end, 'verifying tiny.gguf');
    const after = text.slice(text.lastIndexOf('\r') + 1).replaceAll('\n', ' ');
    assert.is(after, 'local/tiny Ask it with: svc run "…" --model tiny ', 'no bar stays');
  }
});

onTty('a question about a call', async ({ home, daemon }) => {
  const call = { call: 1, server: 'files', tool: 'write', approval: 'ask', arguments: '{}' };
  let decided = () => {};
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event({ run_id: run.id, seq: 1, type: 'run.tool_requested', data: call });
    decided = () => result(completed('It is written.'));
  });
  daemon.on('approval.get', ({ params, result }) => result({ ...params, arguments: '{}' }));
  daemon.on('approval.decide', ({ result }) => {
    result({});
    decided();
  });
  const args = ['run', 'write', '--tools', 'files'];
  const text = await shown(home, 40, args, [['show) ', 'yes\r']]);
  assert.match(text, 'The model wants to call files/write.\nAllow it? (yes, no, always, show) yes');
});

onTty('sentences on stdout', async ({ home }) => {
  const text = await shown(home, 40, ['upgrade']);
  assert.match(text, 'Upgrade it with: git pull && npm install\n&& npx svc restart\n');
});

onTty('tables, and the texts of a run, fit a narrow terminal', async ({ home, daemon }) => {
  const prompt =
    'Why is the sky blue, and 日本語の文 too, since when, and for how long will it be so?';
  const one = { ...run, id: ID, prompt, model: 'SmolLM2-135M-Instruct.Q4_1', output: prompt };
  daemon.on('run.find', ({ result }) => result({ id: ID }));
  daemon.on('run.get', ({ result }) => result(one));
  daemon.on('run.list', ({ result }) => result({ runs: [one], next: null }));
  const model = { id: one.model, provider: 'local', name: one.model, state: 'available' };
  const sizes = { size_bytes: 1e9, parameters: 1e8, context_length: 8192, quantization: 'Q4_1' };
  const more = { capabilities: ['chat', 'completion'], default: true, source: 'LM Studio' };
  daemon.on('model.list', ({ result }) => result({ models: [{ ...model, ...sizes, ...more }] }));
  for (const args of [['runs', 'list'], ['runs', 'show', 'last'], ['model', 'list'], []])
    for (const columns of [60, 80]) {
      const text = await shown(home, columns, args);
      for (const line of text.split('\n'))
        assert.ok(widthOf(line) <= columns, `${args}, ${columns}: ${line}`);
    }
  const answer = (await shown(home, 60, ['runs', 'show', 'last'])).split('Answer\n')[1] ?? '';
  isBroken(answer.trimEnd().replace(/^ {2}/gm, '').split('\n'), prompt, 58);
});

onTty('the models that have a short name', async ({ home }) => {
  const cellsAt = async (columns: number) => {
    const [head = '', ...rows] = (await shown(home, columns, ['model', 'search'])).split('\n');
    return [head.split(/ {2,}/), rows.filter((row) => row.startsWith('llama3.3:70b '))[0]] as const;
  };
  const [narrow, row] = await cellsAt(80);
  assert.equal(narrow, ['NAME', 'SIZE', 'MEMORY', 'FIT', 'TOOLS', 'GOOD FOR']);
  assert.match(
    row ?? '',
    /^llama3\.3:70b +39\.6 GiB +\d+(\.\d)? GiB +(does not fit|tight|fits) +yes +chat and tools.*$/,
  );
  const [wide] = await cellsAt(120);
  assert.equal(wide.at(-1), 'LICENCE');
});

test.run();
