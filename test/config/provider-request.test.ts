import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readProvider } from '../../src/config/providers/provider.ts';
import {
  applyProviderChange,
  readAddedProvider,
} from '../../src/config/providers/provider-request.ts';
import type { SvcError } from '../../src/errors.ts';

/** What a request makes of the settings of a provider. */

const read = (id: string, given: object) => readProvider(id, given, 'test');
const changed = (id: string, given: object, change: Record<string, unknown>) =>
  applyProviderChange(id, read(id, given), change, 'test');

test('what follows from the address follows again, what was set stays', () => {
  const far = { base_url: 'https://a.example/v1' };
  const near = { base_url: 'http://127.0.0.1:1/v1' };
  assert.is(changed('lab', far, near).kind, 'local');
  assert.is(changed('lab', { ...far, kind: 'cloud' }, near).kind, 'local', 'it was the default');
  assert.is(changed('lab', { ...near, kind: 'cloud' }, { model: 'm' }).kind, 'cloud');
  assert.is(
    changed('lab', { ...near, kind: 'cloud' }, { base_url: 'http://127.0.0.1:2' }).kind,
    'cloud',
  );
});

test('a known provider with another adapter has the address of that one', () => {
  const moved = changed('openai', {}, { adapter: 'anthropic' });
  assert.is(moved.base_url, 'https://api.anthropic.com/v1');
  assert.is(moved.key, null, 'the key of OpenAI is not for Anthropic');
});

test('the key stays with its server, and goes to no other', () => {
  const work = { base_url: 'https://a.example/v1', key: 'env:WORK' };
  const to = (base_url: string, more: object = {}) => changed('work', work, { base_url, ...more });
  assert.is(to('https://a.example/v2').key, 'env:WORK');
  assert.is(to('https://b.example/v1').key, null);
  assert.is(to('http://a.example/v1').key, null, 'without TLS it is another server');
  assert.is(to('https://b.example/v1', { key: 'env:WORK' }).key, 'env:WORK');
  assert.is(changed('openai', {}, { base_url: 'https://b.example/v1' }).key, null);
  assert.is(changed('openai', {}, { model: 'm' }).key, 'env:OPENAI_API_KEY');
});

test('headers and options change by name', () => {
  const given = {
    base_url: 'https://a/v1',
    headers: { A: '1', B: '2' },
    options: { project: 'p' },
  };
  const change = { headers: { B: null, C: '3' }, options: { organization: 'o' } };
  const { headers, options } = changed('lab', given, change);
  assert.equal(headers, { A: '1', C: '3' });
  assert.equal(options, { project: 'p', organization: 'o' });
});

test('a change that cannot be is refused as in the file', () => {
  const codeOf = (work: () => unknown) => {
    try {
      work();
      return null;
    } catch (thrown) {
      const { code, param } = thrown as SvcError;
      return `${code} ${param}`;
    }
  };
  const bedrock = { options: { region: 'us-east-1' } };
  const refused = (change: Record<string, unknown>) =>
    codeOf(() => changed('bedrock', bedrock, change));
  assert.is(refused({ options: { region: null } }), 'invalid_request region');
  assert.is(refused({ headers: 'x' }), 'invalid_request headers');
  assert.is(refused({ modle: 'm' }), 'invalid_request modle');
  assert.is(refused({ adapter: 'npm:evil' }), 'invalid_request adapter');
  assert.is(
    codeOf(() => readAddedProvider('x', { adapter: 'npm:evil' }, 'test')),
    'invalid_request adapter',
  );
  const command = ['/bin/sh', '-c', 'true'];
  assert.is(
    codeOf(() =>
      changed('lab', { base_url: 'http://127.0.0.1:1/v1' }, { base_url: null, command }),
    ),
    'invalid_request command',
  );
  assert.is(
    codeOf(() => readAddedProvider('x', { command }, 'test')),
    'invalid_request command',
  );
  const mine = { adapter: 'npm:mine', model: 'a' };
  assert.is(changed('mine', mine, { model: 'b' }).model, 'b', 'the file named it before');
});

test.run();
