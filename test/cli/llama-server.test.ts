import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { run as install } from '../../src/cli/upkeep/engine/install.ts';
import { run as remove } from '../../src/cli/upkeep/engine/remove.ts';
import { RELEASE } from '../../src/engine/native/abi.ts';
import { buildsFolder } from '../../src/home/engine-builds.ts';
import {
  archiveEnd,
  installedLlamaServer,
  LLAMA_RELEASE,
  llamaServerFolder,
} from '../../src/home/llama-server.ts';
import { findPaths, type Paths } from '../../src/home/paths.ts';
import { failure } from '../helpers/failure.ts';

/** `svc engine install llama-server`, from a server on loopback. */

interface Place {
  root: string;
  paths: Paths;
  server: Server;
  url: string;
  /** What the server sends, by path. */
  sends: Map<string, Buffer | string>;
  asked: string[];
}
const test = suite<Place>('llama-server');
const END = archiveEnd() ?? '';

test.before.each(async (context) => {
  context.root = mkdtempSync(join(tmpdir(), 'svc-llama-'));
  context.paths = findPaths({ SVC_HOME: join(context.root, 'home') });
  context.sends = new Map();
  context.asked = [];
  context.server = createServer((request, response) => {
    const path = request.url ?? '';
    context.asked.push(path);
    const body = context.sends.get(path);
    response.writeHead(body === undefined ? 404 : 200).end(body ?? 'no');
  });
  await new Promise<void>((done) => context.server.listen(0, '127.0.0.1', done));
  context.url = `http://127.0.0.1:${(context.server.address() as AddressInfo).port}`;
});
test.after.each(async ({ root, server }) => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  rmSync(root, { recursive: true, force: true });
});
// A command keeps its listener until its process ends. Here other test files come after it.
test.after(() => void process.removeAllListeners('SIGHUP'));

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** An archive as llama.cpp makes it, whose program does this. */
function makeArchive(root: string, script: string): Buffer {
  const folder = join(root, 'llama-b1');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'llama-server'), `#!/bin/sh\n${script}\n`);
  writeFileSync(join(folder, 'libllama.so'), 'library');
  chmodSync(join(folder, 'llama-server'), 0o755);
  execFileSync('tar', ['-czf', join(root, 'made.tar.gz'), '-C', root, 'llama-b1']);
  return readFileSync(join(root, 'made.tar.gz'));
}
const WORKS = 'echo "version: 0.5.0 (build 1)" >&2';

/** The release of the libraries names another one, which has the archive. */
function publish({ sends, url }: Place, archive: Buffer, digest: string | null): string {
  const asset = (name: string, more: object = {}) => ({
    name,
    browser_download_url: `${url}/files/${name}`,
    ...more,
  });
  const name = `llama-b1${END}`;
  sends.set(`/tags/${LLAMA_RELEASE}`, JSON.stringify({ assets: [asset('nightly-tag.txt')] }));
  sends.set('/files/nightly-tag.txt', 'b1\n');
  const found = asset(name, digest === null ? {} : { digest: `sha256:${digest}` });
  sends.set('/tags/b1', JSON.stringify({ assets: [asset(`cudart-${name}`), found] }));
  sends.set(`/files/${name}`, archive);
  return `${url}/tags`;
}

const order = ({ paths }: Place, flags: Record<string, string | string[]>) =>
  install({ name: '', args: ['llama-server'], flags, paths, json: true });

test('its release is that of the libraries of the engine', () => {
  assert.is(LLAMA_RELEASE, `v${RELEASE.files}`);
});

test('the archive of the release is installed, compared with the digest of the release', async (place) => {
  const archive = makeArchive(place.root, WORKS);
  const from = publish(place, archive, sha256(archive));
  assert.is(installedLlamaServer(place.paths), null);
  assert.is(await order(place, { from }), 0);
  const program = join(llamaServerFolder(place.paths), 'llama-server');
  assert.is(installedLlamaServer(place.paths), program);
  assert.equal(readdirSync(llamaServerFolder(place.paths)).sort(), ['libllama.so', 'llama-server']);
  assert.equal(place.asked, [
    `/tags/${LLAMA_RELEASE}`,
    '/files/nightly-tag.txt',
    '/tags/b1',
    `/files/llama-b1${END}`,
  ]);
  assert.is(await order(place, { from }), 0, 'again it is replaced');
  const gone = { name: '', args: ['llama-server'], flags: {}, paths: place.paths, json: true };
  assert.is(await remove(gone), 0);
  assert.is(installedLlamaServer(place.paths), null);
  assert.match((await failure(remove(gone))).message, 'is not installed');
});

test('another digest than that of the release, or of the user, installs nothing', async (place) => {
  const archive = makeArchive(place.root, WORKS);
  const other = '0'.repeat(64);
  const from = publish(place, archive, other);
  const published = await failure(order(place, { from }));
  assert.equal([published.code, published.retryable], ['pull_failed', false]);
  assert.match(published.message, `has the sha256 ${sha256(archive)}, not ${other}.`);
  assert.is(await order(place, { from, sha256: sha256(archive) }), 0, 'the user decides');
  const wrong = await failure(order(place, { from, sha256: 'f'.repeat(64) }));
  assert.match(wrong.message, `not ${'f'.repeat(64)}.`);
  assert.equal(readdirSync(buildsFolder(place.paths)), ['llama-server']);
});

test('without a digest nothing is downloaded or unpacked', async (place) => {
  const archive = makeArchive(place.root, WORKS);
  const from = publish(place, archive, null);
  const file = join(place.root, 'made.tar.gz');
  const address = `${place.url}/files/llama-b1-bin-x.tar.gz`;
  for (const flags of [{ from }, { from: address }, { archive: [file] }]) {
    const error = await failure(order(place, flags));
    assert.equal([error.code, error.message], ['usage', MISSING]);
  }
  assert.not.ok(place.asked.some((path) => path.endsWith('.gz')));
  assert.is(await order(place, { archive: [file], sha256: `sha256:${sha256(archive)}` }), 0);
  assert.ok(existsSync(installedLlamaServer(place.paths) ?? ''));
});
const MISSING = 'Nothing says which digest the archive should have.';

test('a program that does not start here is not installed, and says why', async (place) => {
  const archive = makeArchive(place.root, 'echo "version GLIBC_2.99 not found" >&2; exit 1');
  const flags = { archive: [join(place.root, 'made.tar.gz')], sha256: sha256(archive) };
  const error = await failure(order(place, flags));
  assert.is(error.code, 'pull_failed');
  assert.match(error.message, 'Nothing was installed: llama-server says: version GLIBC_2.99');
  assert.equal(readdirSync(buildsFolder(place.paths)), []);
});

test('a release without an archive for this system, or none at all, is named', async (place) => {
  place.sends.set(`/tags/${LLAMA_RELEASE}`, JSON.stringify({ assets: [] }));
  const from = `${place.url}/tags/`;
  assert.match((await failure(order(place, { from }))).message, `has no archive …${END}`);
  place.sends.set(`/tags/${LLAMA_RELEASE}`, '[]');
  assert.match((await failure(order(place, { from }))).message, 'does not describe a release');
  place.sends.clear();
  const { message, hint } = await failure(order(place, { from }));
  assert.match(message, `does not send /tags/${LLAMA_RELEASE} (404)`);
  assert.match(hint, '--archive <file> --sha256 <digest>');
  const plain = await failure(order(place, { from: 'http://example.org/' }));
  assert.match(plain.message, 'is not an https address');
});

test.run();
