import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';
import { asOther, canBeOther } from './other-user.ts';

/**
 * Another user connects to the local socket again and again while the daemon starts. The umask
 * protects nothing.
 */
const test = suite('a race for the local socket');
if (!canBeOther) process.stdout.write('skipped: no other user to be\n');

const RACER = `
import { connect } from 'node:net';
const path = process.argv.at(-1);
const seen = {};
const attempt = () => {
  const socket = connect(path);
  const next = (what) => {
    if (seen[what] === undefined) console.log(what);
    seen[what] = true;
    socket.destroy();
    setImmediate(attempt);
  };
  socket.once('connect', () => socket.write('{"id":1,"method":"token","params":{}}\\n'));
  socket.once('data', (answer) => next('answer ' + answer));
  socket.once('error', (error) => next(error.code));
};
for (let count = 0; count < 8; count += 1) attempt();
`;

(canBeOther ? test : test.skip)(
  'the socket is never open to another user, nor is any file of the daemon, whatever the umask',
  async () => {
    const folder = mkdtempSync('/tmp/svc-race-');
    const before = process.umask(0);
    const xdg = {
      XDG_STATE_HOME: join(folder, 'state'),
      XDG_DATA_HOME: join(folder, 'data'),
      XDG_CONFIG_HOME: join(folder, 'config'),
      XDG_CACHE_HOME: join(folder, 'cache'),
    };
    const home = makeHome({ ...xdg, SVC_HOME: undefined, HOME: folder });
    const { paths } = home;
    try {
      chmodSync(folder, 0o755);
      mkdirSync(join(folder, 'state', 'svc', 'logs'), { recursive: true, mode: 0o755 });
      for (const file of [paths.stderr]) writeFileSync(file, '', { mode: 0o644 });
      const racer = asOther(RACER, [paths.socket]);
      await waitFor('the attacker tries', () => racer.lines().includes('ENOENT'));
      for (let start = 0; start < 3; start += 1) {
        const life = await serve(home);
        await waitFor('the attacker found the socket', () => racer.lines().includes('EACCES'));
        assert.is(statSync(paths.socket).mode & 0o077, 0);
        for (const file of [paths.token, paths.secret, paths.database, paths.runtime])
          assert.is(statSync(file).mode & 0o077, 0, file);
        await life.stop(0);
      }
      await racer.end();
      assert.equal(
        racer.lines().filter((line) => !['ENOENT', 'EACCES', 'ECONNREFUSED'].includes(line)),
        [],
      );
    } finally {
      process.umask(before);
      await home.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);

test.run();
