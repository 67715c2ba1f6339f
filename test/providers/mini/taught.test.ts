import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands, globalFlags } from '../../../src/cli/commands.ts';
import { commandNames } from '../../../tools/svc-mini/taught.ts';
import { modelFile } from '../../eval/ask.ts';

const { taught, sha256 } = JSON.parse(
  await readFile(new URL('../../../tools/svc-mini/taught.json', import.meta.url), 'utf8'),
) as { taught: string[]; sha256: string };
const today = commandNames(commands, globalFlags);

/** Commands and flags newer than the model file. The next training empties this list. */
const UNTAUGHT: readonly string[] = [
  'model alias',
  'model alias --json',
  'model alias --remove',
  'model default',
  'model default --json',
  'model import',
  'model import --json',
  'model import --name',
  'model pull --anyway',
  'model use',
  'model use --json',
  'engine install',
  'engine install --archive',
  'engine install --json',
  'engine list',
  'engine list --json',
  'engine remove',
  'engine remove --json',
  'model load',
  'model load --json',
  'model load --keep-alive',
  'model ps',
  'model ps --json',
  'model unload',
  'model unload --json',
  'provider add --key',
  'provider add --like',
  'provider add --options',
  'provider discover',
  'provider discover --json',
  'provider key',
  'provider key --from-env',
  'provider key --from-file',
  'provider key --json',
  'provider key --remove',
  'provider key --store',
  'provider add --header',
  'provider add --max-runs',
  'provider default',
  'provider default --json',
  'provider set',
  'provider set --adapter',
  'provider set --base-url',
  'provider set --header',
  'provider set --json',
  'provider set --key',
  'provider set --key-env',
  'provider set --kind',
  'provider set --like',
  'provider set --max-runs',
  'provider set --model,m',
  'provider set --options',
  'model search',
  'model search --hub',
  'model search --json',
  'run --continue,c',
  'run --conversation',
  'runs list --conversation',
  'chat',
  'chat --cloud',
  'chat --context',
  'chat --continue,c',
  'chat --conversation',
  'chat --json',
  'console --no-start',
  'chat --max-tokens',
  'chat --min-p',
  'chat --model,m',
  'chat --no-start',
  'chat --provider,p',
  'runs list --model,m',
  'usage --conversation',
  'chat --dry-multiplier',
  'chat --repeat-penalty',
  'chat --typical-p',
  'chat --seed',
  'chat --stats',
  'chat --stop',
  'chat --system',
  'chat --temperature',
  'chat --timeout',
  'chat --top-k',
  'chat --top-p',
  'runs remove',
  'runs remove --conversation',
  'runs remove --json',
  'runs search',
  'runs search --json',
  'runs search --limit',
  'runs list --cloud',
  'usage',
  'usage --by',
  'usage --json',
  'usage --since',
  'export',
  'export --all',
  'export --json',
  'export --output,o',
  'import',
  'import --json',
  'nodes',
  'nodes drain',
  'nodes drain --json',
  'nodes --json',
  'service install',
  'service install --json',
  'service install --print',
  'service status',
  'service status --json',
  'service uninstall',
  'service uninstall --json',
  'uninstall',
  'uninstall --json',
  'upgrade',
  'upgrade --json',
  'config apply',
  'config apply --json',
  'config edit',
  'config edit --json',
  'config get',
  'config get --json',
  'config path',
  'config path --json',
  'config set',
  'config set --json',
  'config set --remove',
  'chat --file',
  'chat --preset,t',
  'status --watch',
  'preset list',
  'preset list --json',
  'preset remove',
  'preset remove --json',
  'preset add',
  ...['cloud', 'context', 'format', 'json', 'max-tokens', 'min-p', 'model,m', 'provider,p'].map(
    (flag) => `preset add --${flag}`,
  ),
  'preset add --dry-multiplier',
  'preset add --typical-p',
  ...['repeat-penalty', 'schema', 'seed', 'stop', 'system', 'temperature', 'template'].map(
    (flag) => `preset add --${flag}`,
  ),
  'preset add --top-k',
  'preset add --top-p',
  'api',
  'api --data,d',
  'api --json',
  'api --stream',
  'token create',
  'token create --concurrent',
  'token create --json',
  'token create --name',
  'token create --rate',
  'token create --scope',
  'token list',
  'token list --json',
  'token revoke',
  'token revoke --json',
  'token rotate',
  'token rotate --json',
  'token revoke --keep-runs',
  'token rotate --keep-runs',
  'run --context',
  'run --file',
  'run --format',
  'run --min-p',
  'run --preset,t',
  'run --schema',
  'run --stats',
  'run --stop',
  'run --top-k',
  'run --top-p',
  'run --dry-multiplier',
  'run --repeat-penalty',
  'chat --repetition-tokens',
  'preset add --repetition-tokens',
  'run --repetition-tokens',
  'run --typical-p',
  'runs attach --stats',
  'run --raw',
];

/** A flag that has got a letter is still the flag that the model was taught. */
const withoutLetter = (name: string) => name.replace(/,\w$/, '');

test('every command and flag that the model was taught exists today', () => {
  const names = new Set(today.flatMap((name) => [name, withoutLetter(name)]));
  const gone = taught.filter((name) => !names.has(name));
  assert.equal(
    gone,
    [],
    'The model names what does not exist: make svc-mini again, see tools/svc-mini/README.md.',
  );
});

test('commands and flags that the model was not taught are listed', () => {
  assert.equal(
    today.filter((name) => !taught.includes(name) && !taught.includes(withoutLetter(name))),
    [...UNTAUGHT].sort(),
  );
});

test('the model file is the recorded one', async () => {
  assert.is(
    createHash('sha256')
      .update(await readFile(modelFile))
      .digest('hex'),
    sha256,
  );
});

test('names cover commands, flags, short flags and global flags, in a fixed order', () => {
  const names = commandNames(
    [
      { name: 'run', flags: [{ name: 'model', short: 'm' }, { name: 'seed' }] },
      { name: 'doctor', flags: [] },
    ],
    [{ name: 'json' }],
  );
  assert.equal(names, ['*', '* --json', 'doctor', 'run', 'run --model,m', 'run --seed']);
});

test.run();
