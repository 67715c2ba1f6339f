import {
  existsSync,
  lstatSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { historySpecs } from '../../src/config/history.ts';
import { settingSpecs } from '../../src/config/settings.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('svc config');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(({ home }) => home.close());

const WRITTEN = `{
  // how much is logged
  "log_level": "warn", // less than usual
  "limits": {
    "queue_runs": 64
  }
}
`;

const json = async (home: Home, ...args: string[]) => {
  const { code, stdout, stderr } = await home.svc([...args, '--json']);
  assert.is(code, 0, stderr);
  return JSON.parse(stdout);
};

test('set keeps comments, order and mode of the file, and a link stays a link', async ({
  home,
}) => {
  const target = join(home.folder, 'mine.json');
  writeFileSync(target, WRITTEN, { mode: 0o640 });
  symlinkSync(target, home.paths.config);
  const { code, stderr } = await home.svc(['config', 'set', 'log_level', 'debug']);
  assert.is(code, 0, stderr);
  await home.svc(['config', 'set', 'history.keep_days', 'null']);
  assert.is(
    readFileSync(target, 'utf8'),
    WRITTEN.replace('"warn"', '"debug"').replace(
      '64\n  }',
      '64\n  },\n  "history": {\n    "keep_days": null\n  }',
    ),
  );
  assert.ok(lstatSync(home.paths.config).isSymbolicLink());
  assert.is(statSync(target).mode & 0o777, 0o640);
  assert.is((await home.svc(['config', 'get', 'log_level'])).stdout, 'debug\n');
  await home.svc(['config', 'set', 'log_level', '--remove']);
  assert.is((await home.svc(['config', 'get', 'log_level'])).stdout, 'info\n');
});

test('what is not in the file is removed, and a limit is set, in a file without groups', async ({
  home,
}) => {
  const removed = await home.svc(['config', 'set', 'limits.queue_runs', '--remove']);
  assert.is(removed.code, 0, removed.stderr);
  const set = await home.svc(['config', 'set', 'limits.body_bytes', '2000000']);
  assert.is(set.code, 0, set.stderr);
  assert.equal(JSON.parse(readFileSync(home.paths.config, 'utf8')), {
    limits: { body_bytes: 2_000_000 },
  });
});

test('a value or a name that is wrong is refused, and the file stays', async ({ home }) => {
  writeFileSync(home.paths.config, WRITTEN);
  for (const [args, says] of [
    [['log_level', 'loud'], /log_level must be one of trace/],
    [['queue_runs', '5'], /Did you mean: limits\.queue_runs/],
    [['htp', '127.0.0.1:1'], /Did you mean: http/],
    [['limits.queue_runs', '0'], /a whole number from 1/],
    [['log_level'], /The value of log_level is missing/],
    [['providers.x', '{}'], /svc provider add/],
    [['aliases.fast', 'tiny'], /svc config set aliases '<json>'/],
    [['keep_alive.tiny', '5'], /svc config set keep_alive '<json>'/],
  ] as const) {
    const { code, stderr } = await home.svc(['config', 'set', ...args]);
    assert.is(code, 2, stderr);
    assert.match(stderr, says);
  }
  // The value is one that the setting takes; with the rest of the file it is refused.
  const open = await home.svc(['config', 'set', 'auth', 'false'], {
    env: { SVC_HTTP: '0.0.0.0:0' },
  });
  assert.is(open.code, 6, open.stderr);
  assert.is(readFileSync(home.paths.config, 'utf8'), WRITTEN);
  writeFileSync(home.paths.config, '{ "htpp": 1 }');
  const broken = await home.svc(['config', 'set', 'log_level', 'debug']);
  assert.is(broken.code, 6);
  assert.match(broken.stderr, /config\.json:1:3: "htpp" is not a setting(.|\n)*Did you mean: http/);
});

test('a path of a model counts from the folder of the shell', async ({ home }) => {
  const { code, stderr } = await home.svc(['config', 'set', 'model', './mine.gguf']);
  assert.is(code, 0, stderr);
  const { model } = JSON.parse(readFileSync(home.paths.config, 'utf8'));
  assert.is(model, resolve('mine.gguf'));
  await home.svc(['config', 'set', 'model', 'tiny']);
  assert.is((await home.svc(['config', 'get', 'model'])).stdout, 'tiny\n');
});

test('the editor gets a copy: a text with an error never becomes the file', async ({ home }) => {
  writeFileSync(home.paths.config, WRITTEN);
  const edit = (EDITOR: string) => home.svc(['config', 'edit'], { env: { EDITOR } });
  const bad = await edit("sed -i 's/warn/loud/'");
  assert.is(bad.code, 6);
  assert.match(bad.stderr, /config\.json:3:16: log_level must be one of/);
  assert.is(readFileSync(home.paths.config, 'utf8'), WRITTEN);
  const kept = join(dirname(home.paths.config), 'config.edit.json');
  const refused = await edit('true');
  assert.is(refused.code, 2);
  assert.ok(refused.stderr.includes(`An earlier edit left its text in ${kept}`), refused.stderr);
  assert.is(readFileSync(kept, 'utf8'), WRITTEN.replace('warn', 'loud'));
  rmSync(kept);
  assert.match((await edit('true')).stderr, 'Nothing was changed.');
  assert.is((await edit('false')).code, 2);
  const good = await edit("sed -i 's/warn/error/'");
  assert.is(good.code, 0, good.stderr);
  assert.is(readFileSync(home.paths.config, 'utf8'), WRITTEN.replace('warn', 'error'));
});

test('an editor that fails, or is not there, is said in words', async ({ home }) => {
  const refusal = async (EDITOR: string) => {
    const { code, stderr } = await home.svc(['config', 'edit'], { env: { VISUAL: '', EDITOR } });
    assert.is(code, 2, stderr);
    return stderr.split('\n')[0];
  };
  const failed = 'error: The editor failed, and nothing was changed: ';
  assert.is(await refusal('false'), `${failed}false ended with the exit code 1.`);
  assert.is(
    await refusal('sh -c "kill -9 $$"'),
    `${failed}sh -c "kill -9 $$" was ended by SIGKILL.`,
  );
});

test('without a configuration the editor gets each setting in a comment, with its default', async ({
  home,
}) => {
  const edit = (EDITOR: string) => home.svc(['config', 'edit'], { env: { EDITOR } });
  assert.match((await edit('true')).stderr, 'Nothing was changed.');
  assert.not.ok(existsSync(home.paths.config), 'a text without a change writes no file');
  const all = await edit(`sed -i 's|// "|"|'`);
  assert.is(all.code, 0, all.stderr);
  const text = readFileSync(home.paths.config, 'utf8').replaceAll(/\n\s*\/\/ /g, ' ');
  const shown = await json(home, 'config', 'show');
  const specs = [
    ...Object.entries(settingSpecs).map(([key, spec]) => ({ key, spec, group: 'settings' })),
    ...Object.entries(historySpecs).map(([key, spec]) => ({ key, spec, group: 'history' })),
  ];
  for (const { key, spec, group } of specs) {
    const { meaning, default: value, env } = spec;
    assert.ok(text.includes(meaning), key);
    const found = shown[group][key];
    assert.ok(found.source === 'file' || home.env[env] !== undefined, key);
    if (found.source === 'file') assert.equal(found.value, value, key);
  }
});

test('an edit does not undo what another command wrote meanwhile', async ({ home }) => {
  writeFileSync(home.paths.config, WRITTEN);
  const other = WRITTEN.replace('64', '65');
  writeFileSync(join(home.folder, 'other.json'), other);
  const EDITOR = `cp ${join(home.folder, 'other.json')} ${home.paths.config}; sed -i s/warn/error/`;
  const { code, stderr } = await home.svc(['config', 'edit'], { env: { EDITOR } });
  assert.is(code, 2, stderr);
  assert.match(stderr, 'was changed meanwhile');
  assert.match(stderr, 'config.edit.json');
  assert.is(readFileSync(home.paths.config, 'utf8'), other);
});

test('a running daemon says what is not in force, applies what it can, and keeps the rest for later', async ({
  home,
}) => {
  writeFileSync(home.paths.config, WRITTEN);
  await home.svc(['start']);
  assert.equal((await json(home, 'status')).not_in_force, []);

  const now = await json(home, 'config', 'set', 'log_level', 'info');
  assert.equal([now.applied, now.after_restart], [['log_level'], []]);
  const later = await json(home, 'config', 'set', 'limits.queue_runs', '65');
  assert.equal([later.value, later.applied, later.after_restart], [64, [], ['limits.queue_runs']]);
  const stronger = await home.svc(['config', 'set', 'http', '127.0.0.1:9']);
  assert.match(stronger.stderr, 'It has no effect while the variable SVC_HTTP of the daemon says');

  const text = readFileSync(home.paths.config, 'utf8');
  writeFileSync(home.paths.config, text.replace('"info"', '"debug"'));
  assert.equal((await json(home, 'status')).not_in_force, ['log_level', 'limits.queue_runs']);
  for (const command of [['status'], ['config', 'show']])
    assert.match((await home.svc(command)).stderr, 'log_level, limits.queue_runs');
  assert.match((await home.svc(['doctor'])).stdout, /configuration.*limits\.queue_runs/);
  assert.equal((await json(home, 'config', 'apply')).applied, ['log_level']);
  assert.is((await json(home, 'config', 'get', 'log_level')).value, 'debug');

  writeFileSync(home.paths.config, '{ "nope": 1 }');
  assert.match(
    (await home.svc(['status'])).stderr,
    /next start will fail: .*"nope" is not a setting/,
  );
  assert.is((await home.svc(['config', 'apply'])).code, 6);
  assert.is((await json(home, 'config', 'get', 'log_level')).value, 'debug', 'nothing changed');
});

test('what may change counts in the daemon, not only in what it says', async ({ home }) => {
  await home.svc(['start']);
  const events = async () =>
    (await home.svc(['logs', '--level', 'debug', '--json'])).stdout.split('\n').filter(Boolean);
  const isDebug = (line: string) => JSON.parse(line).level === 'debug';
  assert.not.ok((await events()).some(isDebug));
  await home.svc(['config', 'set', 'log_level', 'debug']);
  await home.svc(['run', 'What is svc?', '--model', 'nope']);
  assert.ok((await events()).some(isDebug));
  await home.svc(['config', 'set', 'default_provider', 'nowhere']);
  assert.match((await home.svc(['run', 'hello'])).stderr, 'nowhere');
});

test('status says why the last start failed', async ({ home }) => {
  writeFileSync(home.paths.config, '{}');
  await home.svc(['start']);
  await home.svc(['stop']);
  const { stderr: well } = await home.svc(['status']);
  assert.not.match(well, 'ended with an error');
  writeFileSync(home.paths.database, 'this is no database, but a text that is long enough to see');
  const { code } = await home.svc(['start']);
  assert.is.not(code, 0);
  const { stderr } = await home.svc(['status']);
  assert.match(stderr, /It ended with an error: .*events\.db/);
});

test.run();
