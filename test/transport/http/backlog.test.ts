import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHome } from '../../helpers/svc.ts';
import { waitFor } from '../../helpers/wait.ts';
import { serve } from '../../torture/daemon.ts';
import { ask } from './boot.ts';

const CONNECTIONS = 700;
const SPARE = 100;
/** The system has its own bound. */
const system_max =
  process.platform === 'linux' ? Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')) : 0;
const isHere = system_max >= CONNECTIONS + SPARE;
if (!isHere) console.log('skipped: the system holds too few connections that wait');
const here = isHere ? test : test.skip;

here('as many connections as may be open can wait while the daemon is busy', async () => {
  const home = makeHome({
    SVC_LIMIT_CONNECTIONS: String(CONNECTIONS),
    SVC_LIMIT_SPARE_CONNECTIONS: String(SPARE),
  });
  try {
    const life = await serve(home);
    const { addresses } = await life.ask((client) => client.call('status'));
    const url = new URL(addresses.http ?? '');
    // The server accepts nothing now, so each connection waits in the system.
    process.kill(life.pid, 'SIGSTOP');
    let connected = 0;
    const sockets = Array.from({ length: CONNECTIONS }, () =>
      connect(Number(url.port), url.hostname, () => {
        connected += 1;
      }).on('error', () => {}),
    );
    await waitFor('all are connected', () => connected === CONNECTIONS);
    process.kill(life.pid, 'SIGCONT');
    assert.is((await ask(`${url.origin}/livez`)).status, 200);
    for (const socket of sockets) socket.destroy();
  } finally {
    await home.close();
  }
});

test.run();
