import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loadSync } from '@grpc/proto-loader';
import descriptor, {
  type IDescriptorProto,
  type IFieldDescriptorProto,
  type IFileDescriptorProto,
} from 'protobufjs/ext/descriptor/index.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { strictDescriptors } from '../../src/grpc/descriptors.ts';
import { waitFor } from '../helpers/wait.ts';
import { describeSymbol, reflect, type Served, serve } from './boot.ts';

/** The served descriptors follow the rules of strict readers, such as grpcurl. */
const test = suite<{ grpc: Served }>('gRPC reflection');

const HEALTH = 'grpc.health.v1.Health';
const RUNTIME = 'svc.runtime.v1.Runtime';
const VERSIONS = ['v1', 'v1alpha'] as const;
const MESSAGE = 11;
const REPEATED = 3;
const OPTIONAL = 1;

test.before.each(async (context) => {
  context.grpc = await serve();
});

test.after.each(({ grpc }) => grpc.close());

const decode = (bytes: Uint8Array) =>
  descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto;

interface MapField {
  owner: IDescriptorProto;
  field: IFieldDescriptorProto;
  entry: IDescriptorProto;
}

/** Every map field of a file: a repeated message with an entry type beside it. */
function mapFields(messages: readonly IDescriptorProto[]): MapField[] {
  return messages.flatMap((owner) => {
    const entries = (owner.nestedType ?? []).filter(({ options }) => options?.mapEntry === true);
    const here = entries.flatMap((entry) =>
      (owner.field ?? [])
        .filter(({ typeName }) => typeName === entry.name)
        .map((field) => ({ owner, field, entry })),
    );
    assert.is(here.length, entries.length, `${owner.name} has an entry that no field is of`);
    return [...here, ...mapFields(owner.nestedType ?? [])];
  });
}

/** The check of the canonical reader for a map field. */
function assertStrict({ field, entry }: MapField, name: string): void {
  assert.is(entry.name, name);
  assert.equal([field.type, field.label], [MESSAGE, REPEATED]);
  assert.equal(
    (entry.field ?? []).map(({ name, number, label, jsonName }) => ({
      name,
      number,
      label,
      jsonName,
    })),
    [
      { name: 'key', number: 1, label: OPTIONAL, jsonName: 'key' },
      { name: 'value', number: 2, label: OPTIONAL, jsonName: 'value' },
    ],
  );
}

test('reflection lists the health service to tools of both versions', async ({ grpc }) => {
  for (const version of VERSIONS)
    assert.equal((await reflect(grpc.address, version)).sort(), [HEALTH, RUNTIME], version);
});

test('the served descriptors pass a strict reader: map entries, JSON names, all methods', async ({
  grpc,
}) => {
  for (const version of VERSIONS) {
    const files = (await describeSymbol(grpc.address, version, HEALTH)).map(decode);
    assert.equal(
      files.map((file) => file.package),
      ['grpc.health.v1'],
    );
    const { messageType = [], service = [] } = files[0] ?? {};
    const maps = mapFields(messageType);
    assert.equal(
      maps.map(({ owner, field }) => [owner.name, field.name, field.jsonName]),
      [['HealthListResponse', 'statuses', 'statuses']],
    );
    for (const map of maps) assertStrict(map, 'StatusesEntry');
    for (const { field = [] } of messageType)
      for (const { name, jsonName } of field) assert.is(jsonName, name);
    assert.equal(
      service.flatMap(({ method = [] }) => method.map(({ name }) => name)),
      ['Check', 'Watch', 'List'],
    );
  }
});

test('names are those of protoc, in messages at any depth', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'svc-proto-')), 'maps.proto');
  const lines = [
    'syntax = "proto3"; package p.v1;',
    'message Outer { map<string, Inner> by_long_name = 1; map<int32, string> x = 2; string plain_text = 3;',
    '  message Inner { map<string, int64> deepMap_2 = 1; } Inner inner = 4; }',
  ];
  writeFileSync(file, lines.join('\n'));
  const parts = Object.values(strictDescriptors(loadSync(file, { keepCase: true })));
  const { fileDescriptorProtos } = parts[0] as { fileDescriptorProtos: Buffer[] };
  const maps = fileDescriptorProtos.flatMap((bytes) => mapFields(decode(bytes).messageType ?? []));
  assert.equal(maps.map(({ field, entry }) => [field.name, field.jsonName, entry.name]).sort(), [
    ['by_long_name', 'byLongName', 'ByLongNameEntry'],
    ['deepMap_2', 'deepMap2', 'DeepMap2Entry'],
    ['x', 'x', 'XEntry'],
  ]);
  for (const map of maps) assertStrict(map, String(map.entry.name));
});

const installed = spawnSync('grpcurl', ['-version']).status === 0;
if (!installed) console.log('skipped: no grpcurl');
const withGrpcurl = installed ? test : test.skip;
const grpcurl = async (...args: string[]) =>
  (await promisify(execFile)('grpcurl', ['-plaintext', ...args])).stdout;

withGrpcurl('grpcurl lists, describes and calls what is served', async ({ grpc: { address } }) => {
  assert.is(await grpcurl(address, 'list'), `${HEALTH}\n${RUNTIME}\n`);
  assert.match(
    await grpcurl(address, 'describe', HEALTH),
    /rpc List \( \.grpc\.health\.v1\.HealthListRequest \)/,
  );
  assert.match(
    await grpcurl(address, 'describe', 'grpc.health.v1.HealthListResponse'),
    /map<string, \.grpc\.health\.v1\.HealthCheckResponse> statuses = 1;/,
  );
  assert.equal(JSON.parse(await grpcurl(address, `${HEALTH}/Check`)), { status: 'SERVING' });
  assert.equal(
    JSON.parse(await grpcurl('-d', '{"service":"svc.livez"}', address, `${HEALTH}/Check`)),
    { status: 'SERVING' },
  );
  const { statuses } = JSON.parse(await grpcurl(address, `${HEALTH}/List`)) as {
    statuses: Record<string, unknown>;
  };
  assert.equal(Object.keys(statuses).sort(), ['', 'svc.livez', 'svc.readyz', RUNTIME]);
});

withGrpcurl('grpcurl watches until the server goes', async ({ grpc }) => {
  const watch = spawn('grpcurl', ['-plaintext', grpc.address, `${HEALTH}/Watch`]);
  let seen = '';
  watch.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen += text;
  });
  const ended = new Promise((resolve) => watch.once('close', resolve));
  await waitFor('the first word', () => seen.includes('"SERVING"'));
  await grpc.close();
  assert.is(await ended, 0);
  assert.match(seen, /"NOT_SERVING"/);
});

test.run();
