import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { completed, output, run, suiteWithDaemon } from './fake-daemon.ts';

/** Presets and schemas on the command line. */
const test = suiteWithDaemon('presets and schemas');

const written = (file: string) => JSON.parse(readFileSync(file, 'utf8')).presets;

test('a preset is added, changed, shown and removed by its name', async ({ home, daemon }) => {
  for (const method of ['config', 'config.apply'])
    daemon.on(method, ({ error }) => error(new SvcError('daemon_not_running').body()));
  const { config } = home.paths;
  const add = ['preset', 'add', 'a.b', '--template', 'Sum up: {prompt}', '--temperature', '0'];
  add.push('--tools', 'notes,web/get');
  const added = await home.svc([...add, '--schema', '{"type":"object"}', '-m', 'local/x']);
  assert.is(added.code, 0, added.stderr);
  const response_format = { type: 'json', schema: { type: 'object' } };
  const tool_servers = ['notes', 'web/get'];
  const preset = { temperature: 0, template: 'Sum up: {prompt}', model: 'local/x', tool_servers };
  assert.equal(written(config), { 'a.b': { ...preset, response_format } });
  assert.match((await home.svc(['preset', 'add', 'a.b', '--seed', '1'])).stderr, 'already');
  assert.is((await home.svc(['config', 'set', 'presets.c', '{"system": "Be kind."}'])).code, 0);
  assert.match((await home.svc(['preset', 'list'])).stdout, /^ {2}c +system Be kind\.$/m);
  assert.match((await home.svc(['config', 'get', 'presets.c'])).stdout, 'Be kind.');
  const wrong = await home.svc(['config', 'set', 'presets.c', '{"temperature": 9}']);
  assert.match(wrong.stderr, 'presets "c": temperature must be a number from 0 to 2');
  assert.is((await home.svc(['preset', 'remove', 'a.b'])).code, 0);
  assert.equal(written(config), { c: { system: 'Be kind.' } });
  for (const args of [
    ['preset', 'remove', 'a.b'],
    ['config', 'get', 'presets.none'],
    ['preset', 'add', 'empty'],
    ['preset', 'add', 'x', '--template', 'no place'],
  ])
    assert.is((await home.svc(args)).code, 2, args.join(' '));
  assert.equal(written(config), { c: { system: 'Be kind.' } });
});

test('a schema is a text or a file, and a run is asked with it', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('{}', 1));
    result(completed('{}'));
  });
  const schema = { type: 'object', properties: {} };
  const file = join(home.folder, 'schema.json');
  writeFileSync(file, JSON.stringify(schema));
  for (const given of [file, JSON.stringify(schema)]) {
    const { code, stderr } = await home.svc(['run', 'p', '--schema', given]);
    assert.is(code, 0, stderr);
    assert.equal(daemon.asked.at(-1)?.params.response_format, { type: 'json', schema });
  }
  for (const [given, said] of [
    ['{bad', 'The text of --schema is not JSON.'],
    [join(home.folder, 'none'), 'there is no such file'],
  ] as const)
    assert.match((await home.svc(['run', 'p', '--schema', given])).stderr, said);
});

test('a file without a text is named', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    result(completed(''));
  });
  const file = join(home.folder, 'empty.txt');
  writeFileSync(file, '');
  assert.match((await home.svc(['run', 'p', '--file', file])).stderr, 'empty.txt is empty.');
});

test('the words of an API are said in those of the command line', async ({ home, daemon }) => {
  daemon.on('run.get', ({ error }) => error({ code: 'invalid_request', message: 'No.' }));
  const { stderr } = await home.svc(['runs', 'show', 'x']);
  assert.match(stderr, 'hint: See: svc runs show --help');
});

test('a mistyped provider has a suggestion, and a bare one needs its address', async ({ home }) => {
  const near = await home.svc(['provider', 'add', 'openia']);
  assert.equal([near.code, /Did you mean: svc provider add openai\?/.test(near.stderr)], [2, true]);
  assert.match((await home.svc(['provider', 'add', 'zzzz'])).stderr, '--base-url');
});

test.run();
