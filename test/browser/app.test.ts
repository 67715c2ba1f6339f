import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';
import { ConsoleSuite } from './console-suite.ts';

/** The console as an app: it installs, opens without the daemon, and notifies. */
const on = new ConsoleSuite('the console as an app', { workers: 'allow' });
const { test, held } = on;
const says = on.says.bind(on);

const workerIsActive = () =>
  on.page.evaluate(
    'navigator.serviceWorker.ready.then(({ active }) => new Promise((resolve) => { const look = () => active.state === "activated" && resolve(); active.addEventListener("statechange", look); look(); }))',
  );
const keptPaths = () =>
  on.page.evaluate<string[]>(
    '(async () => { const found = []; for (const name of await caches.keys()) for (const { url } of await (await caches.open(name)).keys()) found.push(new URL(url).pathname); return found; })()',
  );

on.inBrowser('the browser takes the manifest, and its icons have their sizes', async () => {
  await on.signIn();
  const devtools = await on.page.context().newCDPSession(on.page);
  const { url, data, errors } = await devtools.send('Page.getAppManifest');
  assert.is(url, `${on.url}/console/manifest.webmanifest`);
  assert.equal(errors, []);
  const { name, start_url, display, icons } = JSON.parse(data ?? '{}');
  assert.equal([name, start_url, display], ['svc console', '/', 'standalone']);
  const sides = await on.page.evaluate(
    `Promise.all(${JSON.stringify(icons)}.map(async ({ src }) => { const image = new Image(); image.src = src; await image.decode(); return image.naturalWidth; }))`,
  );
  assert.equal((sides as number[]).slice(1), [192, 512]);
  assert.match(
    await on.page.evaluate<string>('fetch("/").then((r) => r.text())'),
    'svc is running',
  );
});

on.inBrowser('only files of the console are kept, and those of another build go', async () => {
  await on.page.addInitScript('caches.open("svc-console-older")');
  await on.signIn();
  await on.ask('A secret prompt', { provider: 'held' });
  await on.answered('A secret answer');
  await workerIsActive();
  const names = await on.page.evaluate<string[]>('caches.keys()');
  assert.is(names.length, 1);
  assert.is.not(names[0], 'svc-console-older');
  await on.page.reload();
  await says('#chat-answer', 'A secret answer');
  const paths = await keptPaths();
  assert.ok(paths.includes('/') && paths.includes('/console/main.js'));
  assert.equal(
    paths.filter((path) => path !== '/' && !path.startsWith('/console/')),
    [],
  );
});

on.inBrowser(
  'the page opens without the daemon, says how to start it, and comes back',
  async () => {
    await on.signIn();
    await workerIsActive();
    await on.life.stop(0);
    await on.page.reload();
    await says('#connection', /^The daemon is gone\..*svc start$/);
    await on.picture('away');
    on.life = await serve(on.home, { env: { SVC_HTTP: new URL(on.url).host } });
    await says('#connection', '');
    await says('#status-path', /^ready/);
    on.forgive(/401/);
    await on.page.click('#sign-out');
    await on.isThere('#sign-in');
    await on.life.stop(0);
    await on.page.reload();
    await says('#sign-in-said', /^The daemon is away\. .*svc console/);
    on.life = await serve(on.home, { env: { SVC_HTTP: new URL(on.url).host } });
  },
);

on.inBrowser('a long run that ends behind a hidden page is notified once, if allowed', async () => {
  await on.seeNotifications();
  let isLong = false;
  await on.page.route('**/v1/runs/run_*', async (route) => {
    const id = new URL(route.request().url()).pathname.split('/').at(-1) ?? '';
    const run = await on.life.ask((client) => client.call('run.get', { id }));
    const created = Date.parse(run.created_at) - (isLong ? 60_000 : 0);
    await route.fulfill({ json: { ...run, created_at: new Date(created).toISOString() } });
  });
  const shown = () => on.notifications();
  const finish = async (long: boolean) => {
    isLong = long;
    const { id } = await on.life.ask((client) =>
      client.call('run.start', { prompt: 'A secret prompt', provider: 'held' }),
    );
    await on.isHeld();
    await on.page.evaluate('window.isHidden = true');
    const read = on.page.waitForResponse((response) => response.url().endsWith(id));
    held.say('Done.');
    held.finish();
    return { id, read };
  };
  await on.signIn();
  assert.is(await on.page.evaluate('window.asked'), 0, 'no question on load');
  await on.visit('settings');
  await on.page.check('#notify');
  await waitFor('it is on', () => on.page.evaluate('localStorage.getItem("svc-notify") === "1"'));
  assert.is(await on.page.evaluate('window.asked'), 1);
  await (await finish(false)).read;
  const { id } = await finish(true);
  await waitFor('it is shown', async () => (await shown()).length > 0);
  assert.equal(
    (await shown()).map(({ title, tag }) => [title, tag]),
    [['A run is completed', id]],
  );
  assert.not.match(JSON.stringify(await shown()), 'secret');
  await on.page.evaluate('window.isHidden = false; window.last.onclick()');
  await says('#run-id', id);
  await on.page.evaluate('window.location.hash = "#/settings"');
  await on.page.uncheck('#notify');
  assert.is(await on.page.evaluate('localStorage.getItem("svc-notify")'), null);
});

test.run();
