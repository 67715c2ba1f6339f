import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import type { SvcError } from '../../../src/errors.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { bytesOf, wires } from '../../helpers/wires.ts';

/** Credentials that are no key: those of AWS and of Google Cloud, from variables and files. */
const test = suite<{ folder: string; before: NodeJS.ProcessEnv }>('credentials of clouds');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-cloud-'));
  context.before = { ...process.env };
  for (const name of Object.keys(process.env))
    if (/^(AWS|GOOGLE|GCLOUD)_/.test(name)) delete process.env[name];
  // No file of this machine is read.
  process.env.AWS_CONFIG_FILE = join(context.folder, 'config');
  process.env.AWS_SHARED_CREDENTIALS_FILE = join(context.folder, 'credentials');
});
test.after.each(({ folder, before }) => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
  rmSync(folder, { recursive: true, force: true });
});

/** One answer of the wire format, and the headers of its request. */
async function ask(kind: 'bedrock' | 'vertex', config: Partial<ProviderConfig>) {
  const wire = wires[kind];
  if (wire === undefined) throw new Error('no wire');
  const upstream = await Upstream.start(async (x) => {
    x.open({ 'content-type': wire.type });
    for (const bytes of bytesOf(wire, [...wire.begin, ...wire.text, ...wire.end(false)]))
      await x.write(bytes);
    x.end();
  });
  const provider = remote(upstream.base_url, { config: { ...wire.config, ...config, key: null } });
  try {
    const { text, failure } = await outcome(provider, { request: { seed_asked: false } });
    return { text, failure, received: upstream.received };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

const REGION = { options: { region: 'eu-west-1' } };

test('Bedrock: a request is signed with the credentials of the variables', async () => {
  process.env.AWS_ACCESS_KEY_ID = 'AKIAVARIABLE';
  process.env.AWS_SECRET_ACCESS_KEY = 'secret-of-the-variable';
  process.env.AWS_SESSION_TOKEN = 'session-of-the-variable';
  const { text, failure, received } = await ask('bedrock', REGION);
  assert.is(failure, null, failure?.message);
  assert.is(text, 'Hello');
  const { authorization, ...headers } = received[0]?.headers ?? {};
  assert.match(
    authorization ?? '',
    /^AWS4-HMAC-SHA256 Credential=AKIAVARIABLE\/\d{8}\/eu-west-1\/bedrock\/aws4_request, .*Signature=[0-9a-f]{64}$/,
  );
  assert.is(headers['x-amz-security-token'], 'session-of-the-variable');
  assert.not.match(JSON.stringify(received), 'secret-of-the-variable');
});

test('Bedrock: a profile of the credentials file signs, and a change counts at once', async () => {
  const file = String(process.env.AWS_SHARED_CREDENTIALS_FILE);
  const write = (id: string) =>
    writeFileSync(
      file,
      `[default]\naws_access_key_id = AKIADEFAULT\naws_secret_access_key = s1\n\n[work]\naws_access_key_id = ${id}\naws_secret_access_key = s2\n`,
    );
  write('AKIAWORK');
  const signedBy = async (config: Partial<ProviderConfig>) => {
    const { failure, received } = await ask('bedrock', config);
    assert.is(failure, null, failure?.message);
    return /Credential=(\w+)\//.exec(received[0]?.headers.authorization ?? '')?.[1];
  };
  assert.is(await signedBy(REGION), 'AKIADEFAULT');
  process.env.AWS_PROFILE = 'work';
  assert.is(await signedBy(REGION), 'AKIAWORK');
  write('AKIANEW');
  assert.is(await signedBy(REGION), 'AKIANEW');
  delete process.env.AWS_PROFILE;
  process.env.AWS_ACCESS_KEY_ID = 'AKIAVARIABLE';
  process.env.AWS_SECRET_ACCESS_KEY = 's3';
  assert.is(await signedBy({ options: { region: 'eu-west-1', profile: 'work' } }), 'AKIANEW');
});

test('Bedrock: without credentials nothing is sent, and the error says what was looked for', async () => {
  const { failure, received } = await ask('bedrock', REGION);
  assert.is(failure?.code, 'provider_unauthorised');
  assert.match(failure?.message ?? '', 'AWS_ACCESS_KEY_ID');
  assert.is(received.length, 0);
});

test('Bedrock: a probe sends nothing, and says whether there are credentials', async () => {
  const config = { ...wires.bedrock?.config, key: null };
  const provider = remote('http://127.0.0.1:9', { config });
  const probe = () =>
    provider.probe(new AbortController().signal).catch(({ code }: SvcError) => code);
  assert.is(await probe(), 'provider_unauthorised');
  process.env.AWS_ACCESS_KEY_ID = 'AKIAVARIABLE';
  process.env.AWS_SECRET_ACCESS_KEY = 'secret-of-the-variable';
  assert.equal(await probe(), { models: [] });
  await provider.close();
});

test('Vertex: the token of a workload identity file is fetched and sent', async ({ folder }) => {
  const asked: string[] = [];
  const tokens = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => {
      body += part;
    });
    request.on('end', () => {
      asked.push(body);
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(
          JSON.stringify({
            access_token: 'token-of-the-endpoint',
            issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
            token_type: 'Bearer',
            expires_in: 3600,
          }),
        );
    });
  });
  await new Promise<void>((resolve) => tokens.listen(0, '127.0.0.1', resolve));
  const { port } = tokens.address() as AddressInfo;
  writeFileSync(join(folder, 'subject'), 'token-of-this-machine');
  process.env.GOOGLE_APPLICATION_CREDENTIALS = join(folder, 'google.json');
  writeFileSync(
    process.env.GOOGLE_APPLICATION_CREDENTIALS,
    JSON.stringify({
      type: 'external_account',
      audience:
        '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `http://127.0.0.1:${port}/token`,
      credential_source: { file: join(folder, 'subject') },
    }),
  );
  try {
    const options = { project: 'mine', region: 'europe-west1' };
    const { text, failure, received } = await ask('vertex', { options });
    assert.is(failure, null, failure?.message);
    assert.is(text, 'Hello');
    assert.is(received[0]?.headers.authorization, 'Bearer token-of-the-endpoint');
    assert.match(decodeURIComponent(asked[0] ?? ''), 'token-of-this-machine');
  } finally {
    tokens.close();
  }
});

test.run();
