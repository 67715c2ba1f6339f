import { readdirSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { empty, fill, mountOver, works } from '../torture/disk.ts';
import { isReady, serve } from './process.ts';

const test = suite<{ home: Home }>('a daemon started on a full disk');

const canMount = process.getuid?.() === 0 && works('mount', '--version');
if (!canMount) console.log('skipped: mounting is not permitted here');
const small = canMount ? test : test.skip;
const RESERVE = { SVC_LIMIT_RESERVE_BYTES: String(1024 * 1024) };

test.before.each((context) => {
  context.home = makeHome(RESERVE);
});
test.after.each(({ home }) => home.close());

/** The status and the text of a route. */
async function ask(home: Home, path: string): Promise<string> {
  const { http } = JSON.parse(readFileSync(home.paths.runtime, 'utf8')).addresses as {
    http: string;
  };
  const answer = await fetch(`${http}${path}`);
  return `${answer.status} ${await answer.text()}`;
}

small(
  'with its reserve it is alive and not ready, and continues when there is space',
  async ({ home }) => {
    const disk = mountOver(home.folder, 16);
    try {
      const before = serve(home, 'none');
      await waitFor('the daemon is ready', isReady(before), { within_ms: 50_000 });
      before.child.kill('SIGKILL');
      await before.ended;
      fill(home.folder);

      const daemon = serve(home, 'none');
      await waitFor('the daemon is started', isReady(daemon), { within_ms: 50_000 });
      await waitFor('it says that it is not ready', async () =>
        /^503 .*(disk|space)/s.test(await ask(home, '/readyz')),
      );
      assert.match(await ask(home, '/livez'), /^200 /);
      const drafts = readdirSync(home.folder).filter((name) => name.endsWith('.tmp'));
      assert.equal(drafts, []);

      empty(home.folder);
      await waitFor('it is ready', async () => (await ask(home, '/readyz')).startsWith('200'));
      daemon.child.kill('SIGTERM');
      assert.equal(await daemon.ended, { code: 0, signal: null }, daemon.out());
    } finally {
      disk?.unmount();
    }
  },
);

small(
  'without its reserve it names the full disk and leaves no temporary file',
  async ({ home }) => {
    const disk = mountOver(home.folder, 16);
    try {
      fill(home.folder);
      const daemon = serve(home, 'none');
      assert.is((await daemon.ended).code, 4, daemon.out());
      assert.match(daemon.out(), /store_full/);
      assert.equal(
        readdirSync(home.folder, { recursive: true }).filter((name) =>
          String(name).endsWith('.tmp'),
        ),
        [],
      );
    } finally {
      disk?.unmount();
    }
  },
);

test.run();
