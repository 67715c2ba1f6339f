import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/home/paths.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

/** A daemon that runs while its program is built again, replaced or removed. */
const test = suite<{ home: Home; folder: string; program: string }>('a replaced program');

test.before.each((context) => {
  context.home = makeHome();
  context.folder = mkdtempSync(join(tmpdir(), 'svc-program-'));
  cpSync(join(packageRoot(), 'dist'), join(context.folder, 'dist'), { recursive: true });
  cpSync(join(packageRoot(), 'package.json'), join(context.folder, 'package.json'));
  symlinkSync(join(packageRoot(), 'node_modules'), join(context.folder, 'node_modules'));
  context.program = join(context.folder, 'dist', 'src', 'main.js');
});
test.after.each(async ({ home, folder }) => {
  await home.close();
  rmSync(folder, { recursive: true });
});

/** Makes another build of the copy, which differs in its identity alone. */
function rebuild(folder: string, build: string): void {
  for (const file of globSync('dist/**/*.js', { cwd: folder })) {
    const path = join(folder, file);
    const text = readFileSync(path, 'utf8');
    if (text.includes(build)) writeFileSync(path, text.replaceAll(build, '0123456789ab'));
  }
}

test('svc status says that the daemon runs another build of the same version', async ({
  home,
  folder,
  program,
}) => {
  const first = await serve(home, { program });
  const { build, version } = await first.ask((client) => client.call('status'));
  assert.match(build ?? '', /^[0-9a-f]{12}$/);
  const same = await home.svc(['status']);
  assert.match(same.stdout, new RegExp(`^ *version +${version}$`, 'm'));
  await first.stop(0);
  rebuild(folder, build ?? '');
  const second = await serve(home, { program });
  const other = await home.svc(['status']);
  assert.match(other.stdout, /version +\S+ \(another build than this program; .*svc restart\)/);
  await second.stop(0);
});

test('what the daemon cannot load any more says so, and what it has loaded goes on', async ({
  home,
  folder,
  program,
}) => {
  const life = await serve(home, { program, env: { SVC_AUTH: 'false' } });
  const { addresses } = await life.ask((client) => client.call('status'));
  // The daemon has all our code, and loads packages on use.
  rmSync(join(folder, 'dist'), { recursive: true });
  rmSync(join(folder, 'node_modules'));
  const answer = await fetch(`${addresses.http}/openapi.json`);
  const { error } = (await answer.json()) as { error: Record<string, unknown> };
  assert.equal([answer.status, error.code], [503, 'program_replaced']);
  assert.match(String(error.hint), /svc restart/);
  const [host, port] = (addresses.grpc ?? '').split(':');
  const socket = connect(Number(port), host);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('close', resolve));
  await waitFor('the log says why', () =>
    /program_replaced.*a gRPC connection could not be served/.test(life.printed()),
  );
  assert.is((await fetch(`${addresses.http}/readyz`)).status, 200);
  const { runs } = await life.ask((client) => client.call('run.list', {}));
  assert.equal(runs, []);
  await life.stop(0);
});

test.run();
