import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SCOPES } from '../../../src/contract/words.ts';
import type { SvcError } from '../../../src/errors.ts';
import { platform } from '../../../src/home/platform.ts';
import { requireScope } from '../../../src/runtime/principal/principal.ts';
import { Meter, NamedTokens } from '../../../src/transport/auth/named-tokens.ts';
import { createTokenAccess } from '../../../src/transport/auth/token-access.ts';
import { type TokenFile, tokenFile } from '../../../src/transport/auth/token-file.ts';
import { waitFor } from '../../helpers/wait.ts';

const test = suite<{ folder: string; path: string }>('tokens of programs');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-tokens-'));
  context.path = join(context.folder, 'tokens.json');
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

const LIMITS = { tokens: 3 };
const free = { rate: null, concurrent: null };
const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as SvcError).code;
  }
  return 'none';
};
const codeOfLate = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: SvcError) => error.code,
  );

test('a token is found by itself alone, and the file has its hash only', async ({ path }) => {
  const tokens = new NamedTokens(tokenFile(path), LIMITS);
  const { token } = await tokens.create({ name: 'editor', scope: 'run', ...free });
  assert.match(token, /^svc_[\w-]{43}$/);
  const holder = tokens.find(token);
  assert.equal([holder?.name, holder?.scope], ['editor', 'run']);
  for (const wrong of ['', 'svc_', token.slice(0, -1), `${token}x`, token.toUpperCase()])
    assert.is(tokens.find(wrong), null);
  const text = readFileSync(path, 'utf8');
  assert.ok(!text.includes(token) && !text.includes(token.slice(4)));
  assert.is(statSync(path).mode & 0o777, 0o600);
  assert.ok(!JSON.stringify(tokens.list()).includes('sha256'));
});

test('a token of a process ends with it, with all that it admitted', async ({ path }) => {
  const over: string[] = [];
  const open = () => new NamedTokens(tokenFile(path), LIMITS, Date.now, (name) => over.push(name));
  const tokens = open();
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  const process_start = platform.processStart(pid);
  const own = await tokens.create({
    name: 'launch',
    scope: 'run',
    ...free,
    process: { pid, process_start },
  });
  const { token: lasting } = await tokens.create({ name: 'lasts', scope: 'run', ...free });
  const holder = tokens.find(own.token);
  assert.is(holder?.ended.aborted, false);
  assert.not.ok(JSON.stringify(tokens.list()).includes('process'));
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.is(tokens.find(own.token), null, 'at once');
  const after = open();
  assert.is(after.find(own.token), null, 'also after a restart');
  assert.ok(after.find(lasting));
  for (const each of [tokens, after]) {
    await waitFor('it is revoked', () => each.list().every(({ name }) => name === 'lasts'));
    await each.close();
  }
  assert.is(holder?.ended.aborted, true);
  assert.equal(over, ['launch', 'launch']);
  assert.not.match(readFileSync(path, 'utf8'), /launch/);
});

test('a process with a reused pid is another one, and one that is not seen binds nothing', async ({
  path,
}) => {
  const { pid } = process;
  const process_start = platform.processStart(pid);
  const tokens = new NamedTokens(tokenFile(path), LIMITS);
  const bound = { pid, process_start };
  const { token } = await tokens.create({ name: 'a', scope: 'run', ...free, process: bound });
  const other = { pid, process_start: `${process_start}1` };
  const { token: unbound } = await tokens.create({
    name: 'b',
    scope: 'run',
    ...free,
    process: other,
  });
  await tokens.close();
  const text = readFileSync(path, 'utf8');
  assert.is(text.split('process_start').length, 2, 'only the one that the daemon can see');
  // After a start of the machine, the pid is that of another process.
  writeFileSync(path, text.replace(JSON.stringify(process_start), '"of another boot:1"'));
  const after = new NamedTokens(tokenFile(path), LIMITS);
  assert.is(after.find(token), null);
  assert.ok(after.find(unbound));
  await after.close();
});

test('a restart keeps tokens and their last use, and a list that others can read is closed', async ({
  path,
}) => {
  let now = Date.parse('2026-01-01T00:00:00Z');
  const first = new NamedTokens(tokenFile(path), LIMITS, () => now);
  const { token } = await first.create({ name: 'a', scope: 'read', rate: 60, concurrent: 4 });
  assert.is(first.list()[0]?.last_used, null);
  now += 5000;
  first.find(token);
  await first.close();
  chmodSync(path, 0o644);
  const second = new NamedTokens(tokenFile(path), LIMITS);
  assert.equal(second.list(), [
    {
      name: 'a',
      scope: 'read',
      rate: 60,
      concurrent: 4,
      created_at: '2026-01-01T00:00:00.000Z',
      last_used: '2026-01-01T00:00:05.000Z',
    },
  ]);
  assert.is(second.find(token)?.name, 'a');
  assert.is(statSync(path).mode & 0o777, 0o600);
});

test('many uses cost one write', async ({ path }) => {
  const file = tokenFile(path);
  let writes = 0;
  const counting: TokenFile = {
    read: () => file.read(),
    write: (entries) => {
      writes += 1;
      return file.write(entries);
    },
  };
  const tokens = new NamedTokens(counting, LIMITS);
  const { token } = await tokens.create({ name: 'a', scope: 'read', ...free });
  for (let use = 0; use < 1000; use += 1) tokens.find(token);
  assert.is(writes, 1);
  await tokens.close();
  await tokens.close();
  assert.is(writes, 2);
});

test('a revoked token is unknown, also after a restart, and what it admitted ends', async ({
  path,
}) => {
  const tokens = new NamedTokens(tokenFile(path), LIMITS);
  const { token } = await tokens.create({ name: 'a', scope: 'run', ...free });
  const other = await tokens.create({ name: 'b', scope: 'run', ...free });
  const holder = tokens.find(token);
  await tokens.revoke('a');
  assert.is(holder?.ended.aborted, true);
  assert.match(String(holder?.ended.reason), /The token a was revoked/);
  assert.is(tokens.find(token), null);
  assert.is(tokens.find(other.token)?.ended.aborted, false);
  const later = new NamedTokens(tokenFile(path), LIMITS);
  assert.is(later.find(token), null);
  assert.is(later.find(other.token)?.name, 'b');
  assert.is(await codeOfLate(tokens.revoke('a')), 'token_unknown');
  const again = await tokens.create({ name: 'a', scope: 'run', ...free });
  assert.is.not(again.token, token);
});

test('names are checked, are unique also at one time, and have a bound', async ({ path }) => {
  const tokens = new NamedTokens(tokenFile(path), LIMITS);
  for (const name of ['', 'a b', '../x', 'x'.repeat(65), 'ä', 'a\n'])
    assert.is(
      await codeOfLate(tokens.create({ name, scope: 'run', ...free })),
      'invalid_request',
      name,
    );
  const both = ['same', 'same'].map((name) =>
    codeOfLate(tokens.create({ name, scope: 'run', ...free })),
  );
  assert.equal(await Promise.all(both), ['none', 'token_exists']);
  await tokens.create({ name: 'b', scope: 'run', ...free });
  await tokens.create({ name: 'c', scope: 'run', ...free });
  assert.is(await codeOfLate(tokens.create({ name: 'd', scope: 'run', ...free })), 'busy');
});

test('a token whose file cannot be written is not valid, and a damaged list is an error', async ({
  path,
}) => {
  const tokens = new NamedTokens(tokenFile(join(path, 'no', 'folder.json')), LIMITS);
  const failed = tokens.create({ name: 'a', scope: 'run', ...free });
  assert.is(await codeOfLate(failed), 'home_unusable');
  assert.equal(tokens.list(), []);
  for (const text of ['', '{', '{"tokens":[{"name":"a"}]}', '[]']) {
    writeFileSync(path, text);
    assert.is(
      codeOf(() => new NamedTokens(tokenFile(path), LIMITS)),
      'home_unusable',
      text,
    );
  }
});

test('each scope includes what it says, and a refusal names the needed one', () => {
  const needs = ['any', 'read', 'run', 'approve', 'admin'] as const;
  const includes = {
    read: ['any', 'read'],
    run: ['any', 'run'],
    approve: ['any', 'approve'],
    admin: needs,
  };
  for (const scope of SCOPES)
    for (const needed of needs)
      assert.is(
        codeOf(() => requireScope({ name: 'a', scope }, needed)),
        (includes[scope] as readonly string[]).includes(needed) ? 'none' : 'scope_insufficient',
        `${scope} ${needed}`,
      );
  assert.throws(
    () => requireScope({ name: 'editor', scope: 'read' }, 'run'),
    /editor has the scope read, and this request needs run/,
  );
  assert.throws(
    () => requireScope({ name: 'editor', scope: 'run' }, 'read'),
    /what others asked.*only what it asked itself/,
  );
});

test('a rate lets its requests through, and says when the next may come', () => {
  let now = 1_000_000;
  const meter = new Meter(() => now);
  const bound = { name: 'a', rate: 3, concurrent: null };
  const refused = () => {
    try {
      meter.request(bound).begin();
    } catch (error) {
      return Number((error as SvcError).details?.retry_after_ms);
    }
    return 0;
  };
  assert.equal([refused(), refused(), refused()], [0, 0, 0]);
  assert.is(refused(), 20_000);
  now += 19_999;
  assert.is(refused(), 1);
  now += 1;
  assert.equal([refused(), refused()], [0, 20_000]);
  now += 3_600_000;
  assert.equal([refused(), refused(), refused(), refused() > 0], [0, 0, 0, true]);
});

test('requests at one time are counted until they end, once each', () => {
  const meter = new Meter(() => 0);
  const bound = { name: 'a', rate: null, concurrent: 2 };
  const [first] = [meter.request(bound).begin(), meter.request(bound).begin()];
  assert.is(
    codeOf(() => meter.request(bound).begin()),
    'rate_limited',
  );
  first?.();
  first?.();
  meter.request(bound).begin();
  assert.is(
    codeOf(() => meter.request(bound).begin()),
    'rate_limited',
  );
});

test('a call is admitted with one valid token, of the home or of a program', async ({ path }) => {
  const named = new NamedTokens(tokenFile(path), LIMITS);
  const { token } = await named.create({ name: 'a', scope: 'read', ...free });
  const home = 'the-token-of-the-home-0123456789';
  const access = createTokenAccess({ settings: { auth: true }, token: () => home, named });
  assert.equal(
    [access.admit([`Bearer ${home}`]).scope, access.admit([`bearer ${token}`]).scope],
    ['admin', 'read'],
  );
  for (const sent of [
    [],
    [''],
    ['Bearer '],
    [token],
    ['Bearer wrong'],
    [`Bearer ${home}`, `Bearer ${token}`],
  ])
    assert.is(
      codeOf(() => access.admit(sent)),
      'unauthorised',
    );
});

test.run();
