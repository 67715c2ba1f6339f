import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path/posix';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';
import { ConsoleSuite } from './console-suite.ts';
import { sticksOut, tabStops, unreadable } from './in-page.ts';

/** The pages of the console: they show the state, the runs and the log as they are. */
const on = new ConsoleSuite('the console');
const { test, held } = on;
const says = on.says.bind(on);
const isThere = on.isThere.bind(on);
const isGone = on.isGone.bind(on);
const inBrowser = on.inBrowser.bind(on);

const FOLDER = 'src/console';
const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => /\.(html|css|js|svg|png|webmanifest)$/.test(file));
const source = (file: string) => readFileSync(`${FOLDER}/${file}`, 'utf8');
const value = (selector: string) => on.page.locator(selector).inputValue();

test('its files refer only to existing files, have no inline script or style, and are small', () => {
  const html = source('index.html');
  for (const [, name = ''] of html.matchAll(/(?:src|href)="\/console\/([^"]+)"/g))
    assert.ok(files.includes(name), name);
  for (const file of files.filter((name) => name.endsWith('.js')))
    for (const [, name = ''] of source(file).matchAll(/from '(\.[^']+)'/g))
      assert.ok(files.includes(join(dirname(file), name)), `${file}: ${name}`);
  assert.not.match(html, /<style|<script(?![^>]* src=)|\sstyle=|\son[a-z]+=/);
  for (const file of files)
    assert.not.match(
      source(file),
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|https?:\/\/(?!www\.w3\.org\/2000\/svg|127\.0\.0\.1)/,
      file,
    );
  const texts = files.filter((name) => !name.endsWith('.png'));
  assert.ok(texts.reduce((sum, file) => sum + Buffer.byteLength(source(file)), 0) < 272 * 1024);
});

inBrowser(
  'a ticket signs in once and leaves the address; the token signs in too; signing out ends both',
  async () => {
    const ticket = await on.ticketUrl();
    await on.page.goto(ticket);
    await says('#status-path', 'ready');
    assert.is(on.page.url(), `${on.url}/`);
    await on.page.reload();
    await says('#status-path', 'ready');
    await on.page.click('#sign-out');
    await isThere('#sign-in');
    await on.page.goto(ticket);
    await says('#sign-in-said', /ticket is wrong/);
    await on.picture('sign-in');
    await on.page.fill('#token', 'wrong');
    await on.page.keyboard.press('Enter');
    await says('#sign-in-said', /token is wrong/);
    await on.page.fill('#token', readFileSync(on.home.paths.token, 'utf8').trim());
    await on.page.keyboard.press('Enter');
    await says('#status-path', 'ready');
    await isThere('#ask-prompt');
    on.forgive(/401/);
  },
);

inBrowser('a late answer to an earlier session does not end the next one', async () => {
  // The page reads the storage of its session as late as the test wants.
  await on.page.addInitScript(`(() => {
    const { get } = IDBObjectStore.prototype;
    window.read = Promise.resolve();
    IDBObjectStore.prototype.get = function (key) {
      const request = get.call(this, key);
      const late = { get result() { return request.result; } };
      Object.defineProperty(late, 'onsuccess', {
        set: (act) => { request.onsuccess = () => window.read.then(act); },
      });
      return late;
    };
  })()`);
  const token = readFileSync(on.home.paths.token, 'utf8').trim();
  const signInAgain = async () => {
    await on.page.fill('#token', token);
    await on.page.keyboard.press('Enter');
    await isThere('#nav');
  };
  await on.signIn();
  await on.page.click('#sign-out');
  await isThere('#sign-in');
  await on.page.evaluate('(() => { window.read = new Promise((go) => { window.go = go; }); })()');
  await on.page.goto(`${on.url}/#ticket=wrong`);
  await says('#sign-in-said', /ticket is wrong/);
  await signInAgain();
  await on.page.evaluate('window.go()');
  await on.page.evaluate('new Promise((drawn) => setTimeout(drawn))');
  assert.ok(await on.page.locator('#nav').isVisible(), 'it is signed in');
  // A request of this session, whose refusal arrives in the next one.
  const [arrived, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await on.page.route(
    '**/v1/models',
    async (route) => {
      arrived.resolve();
      await released.promise;
      await route.fulfill({ status: 401, json: { error: { code: 'unauthenticated' } } });
    },
    { times: 1 },
  );
  await on.visit('models');
  await arrived.promise;
  await on.page.click('#sign-out');
  await isThere('#sign-in');
  await signInAgain();
  const answered = on.page.waitForResponse('**/v1/models');
  released.resolve();
  await answered;
  await on.ask('What is svc?');
  await says('#chat-state', 'completed');
  on.forgive(/401/);
});

inBrowser(
  'a run has a page with an address: its answer, its figures, its timeline and its machine',
  async () => {
    await on.signIn();
    await on.askRun('What is svc?');
    await says('#run-state', 'completed');
    await says('#run-output', /daemon/);
    await says('#run-facts', /tokens.*out/);
    await says('#run-timeline tr:last-child td:nth-child(4)', 'completed');
    const happened = await on.page.locator('#run-timeline tr td:nth-child(4)').allTextContents();
    assert.is(happened[0], 'accepted');
    assert.is(happened.at(-1), 'completed');
    await isThere('#diagram [data-part="state:completed"].here.is-good');
    await isThere('#diagram [data-part="edge:working|run.completed|completed"].taken');
    await says('#machine-text', /^completed/);
    await on.page.click('#run-body > details summary');
    assert.match(await on.text('#run-why'), /accepted/);
    await on.picture('light');
    const address = on.page.url();
    assert.match(address, /#\/runs\/run_\w+$/);
    await on.page.reload();
    await says('#run-prompt', 'What is svc?');
    await says('#run-output', /daemon/);
    assert.is(on.page.url(), address);
    await on.visit('runs');
    await says('#runs-rows tr:first-child td:first-child', 'completed');
    await on.page.click('#runs-rows tr:first-child a');
    assert.is(on.page.url(), address);
    await on.page.goBack();
    await isThere('#runs');
    await isGone('#run');
  },
);

inBrowser(
  'the address of a run leads there after a sign-in, and an unknown one says so',
  async () => {
    await on.signIn();
    await on.askRun('What is an address?');
    const address = on.page.url();
    await on.page.click('#sign-out');
    await isThere('#sign-in');
    await on.page.goto(address);
    await isThere('#sign-in');
    await on.page.fill('#token', readFileSync(on.home.paths.token, 'utf8').trim());
    await on.page.keyboard.press('Enter');
    await says('#run-prompt', 'What is an address?');
    // The first request has no answer.
    await on.page.route('**/v1/runs/run_nowhere', (route) => route.abort(), { times: 1 });
    await on.page.goto(`${on.url}/#/runs/run_nowhere`);
    await says('#run-none', /run_nowhere/);
    await isGone('#run-body');
    on.forgive(/401|404|ERR_FAILED/);
  },
);

inBrowser('an answer is shown as it grows, and stopping it stops the work', async () => {
  await on.signIn();
  await on.askRun('Say it slowly', 'held');
  await on.isHeld();
  held.say('one ');
  await says('#run-output', /^one/);
  await says('#status-path', 'answering');
  await says('#status-since', /^1 run, up \d/);
  held.say('two');
  await says('#run-output', 'one two');
  await isThere('#diagram [data-part="state:streaming"].here.is-active');
  await isThere('#diagram [data-part="edge:starting|run.output_appended|streaming"].taken');
  await on.picture('streaming');
  await on.page.click('#run-cancel');
  await says('#run-state', 'cancelled');
  await waitFor('the connection to the other server is closed', () => held.streams.size === 0);
  await isThere('#diagram [data-part="state:cancelled"].here');
  await isGone('#run-cancel');
  assert.is(await on.text('#run-output'), 'one two');
});

inBrowser('the slider shows the state at any event, and live returns to the present', async () => {
  await on.signIn();
  await on.askRun('What is a run?');
  await says('#run-state', 'completed');
  const last = Number(await on.text('#time-seq'));
  const started = on.page.locator('#run-timeline tr', { hasText: 'started' }).locator('button');
  const seq = (await started.textContent()) ?? '';
  await started.click();
  await says('#past-text', new RegExp(`after event ${seq}, run\\.started`));
  await says('#run-state', 'starting');
  assert.is(await on.text('#run-output'), '');
  await says('#status-path', 'answering');
  assert.is(await value('#time-slider'), seq);
  await isThere('#diagram [data-part="state:starting"].here');
  await isThere('#diagram [data-part="edge:waiting|run.started|attempting"].taken');
  await on.picture('past');
  await on.visit('runs');
  await says('#runs-rows tr:first-child td:first-child', 'starting');
  await on.visit('overview');
  await says('#queue-text', /^1 active/);
  await on.visit('log');
  assert.is(await on.text('#events-table tbody:nth-of-type(1) .seq'), seq);
  await on.page.goBack();
  await on.page.goBack();
  await on.page.goBack();
  await isThere('#run-body');
  await on.page.locator('#time-slider').fill('1');
  await says('#status-path', 'starting');
  await says('#run-none', /did not exist/);
  await on.page.click('#time-forth');
  await says('#time-seq', '2');
  await on.page.click('#past-live');
  await isGone('#past');
  await says('#status-path', 'ready');
  await says('#run-state', 'completed');
  assert.ok(Number(await value('#time-slider')) >= last);
});

inBrowser('events are filtered by type and stream, and the log by its level', async () => {
  await on.signIn();
  await on.visit('log');
  await on.page.fill('#events-type', 'daemon.boot');
  await says('#events-note', /^1 of \d+ events$/);
  await on.page.click('#events-table [aria-expanded]');
  await says('#events-table .data', /"capacity"/);
  await on.page.fill('#events-type', '');
  await on.page.fill('#events-stream', 'engine');
  await waitFor('only the engine is left', async () =>
    (await on.page.locator('#events-table tbody td:nth-child(4)').allTextContents()).every(
      (name) => name === 'engine',
    ),
  );
  await says('#logs-lines', /ready/);
  await on.page.click('#logs-pause');
  await on.page.selectOption('#logs-level', 'info');
  await says('#logs-note', /lines wait/);
  await on.page.selectOption('#logs-level', 'fatal');
  await says('#logs-lines', '');
  await on.page.click('#logs-pause');
  await says('#logs-note', '');
  assert.is(await on.text('#logs-lines'), '');
});

inBrowser(
  'a killed daemon is shown as gone, and after a new start no event is lost or doubled',
  async () => {
    await on.signIn();
    await on.ask('Cut me off', { provider: 'held' });
    await on.isHeld();
    held.say('before ');
    await says('#chat-answer', /^before/);
    await on.page.evaluate('window.same = true');
    await on.life.kill();
    await says('#connection', /is gone. Trying again/);
    await says('#status-path', 'gone');
    assert.match((await on.page.locator('#status-path').getAttribute('class')) ?? '', /\bbad\b/);
    assert.match(await on.page.title(), /^gone/);
    await on.picture('lost');
    on.life = await serve(on.home, { env: { SVC_HTTP: new URL(on.url).host } });
    await says('#connection', '');
    await says('#status-path', /^(ready|answering)/);
    await on.ask('What is svc?');
    await says('#chat-state', 'completed');
    assert.is(await on.page.evaluate('window.same'), true);
    await on.visit('log');
    const seqs = (await on.page.locator('#events-table .seq').allTextContents()).map(Number);
    assert.ok(seqs.length > 20);
    for (const [index, seq] of seqs.entries()) assert.is(seq, (seqs[0] ?? 0) - index);
    await on.page.fill('#events-type', 'daemon.boot_started');
    await says('#events-note', /^2 of/);
    await on.visit('runs');
    await on.page.locator('#runs-rows tr', { hasText: 'Cut me off' }).first().locator('a').click();
    await says('#run-state', 'interrupted');
    assert.match(await on.text('#run-output'), /^before/);
  },
);

inBrowser('a daemon that is frozen is shown as gone, and comes back by itself', async () => {
  await on.signIn();
  process.kill(on.life.pid, 'SIGSTOP');
  try {
    await says('#status-path', 'gone');
  } finally {
    process.kill(on.life.pid, 'SIGCONT');
  }
  await says('#status-path', 'ready');
  await says('#connection', '');
});

inBrowser('the focus stays in its place while everything around it changes', async () => {
  await on.signIn();
  await on.askRun('What is a state?');
  await says('#run-state', 'completed');
  await on.visit('runs');
  const link = on.page.locator('#runs-rows tr', { hasText: 'What is a state?' }).locator('a');
  await link.first().focus();
  const focused = () => on.page.evaluate<string>('document.activeElement.textContent');
  await on.life.ask((client) => client.call('run.start', { prompt: 'What is an event?' }));
  await says('#runs-rows tr:first-child', /What is an event\?/);
  assert.is(await focused(), 'What is a state?');
  await on.page.keyboard.press('Enter');
  await says('#run-prompt', 'What is a state?');
  await on.page.locator('#run-timeline tr', { hasText: 'started' }).locator('button').focus();
  const seq = await focused();
  const before = Number(await on.text('#time-seq'));
  await on.life.ask((client) => client.call('provider.test', { id: 'local' }));
  await waitFor('the test is in the log', async () => Number(await on.text('#time-seq')) > before);
  assert.is(await focused(), seq);
  await on.page.keyboard.press('Enter');
  await says('#past-text', new RegExp(`after event ${seq}, run\\.started`));
  await says('#run-state', 'starting');
  assert.is(await focused(), seq);
});

inBrowser('every action works by keyboard', async () => {
  await on.signIn();
  await on.page.keyboard.press('?');
  await isThere('#keys[open]');
  await on.picture('keys');
  await on.page.keyboard.press('Escape');
  await on.page.keyboard.press('n');
  await on.page.keyboard.type('What is a provider? [l]');
  await on.page.keyboard.press('Enter');
  await says('.turn.user', 'What is a provider? [l]');
  await says('#chat-state', 'completed');
  await on.page.keyboard.press('Escape');
  await on.page.keyboard.press('2');
  await isThere('#machine-tabs [data-machine=run][aria-pressed=true]');
  await on.page.keyboard.press('[');
  await isThere('#past:not([hidden])');
  await on.page.keyboard.press('l');
  await isGone('#past');
  for (const [key, section] of Object.entries({
    r: 'runs',
    a: 'approvals',
    o: 'overview',
    p: 'models',
    m: 'machines',
    s: 'settings',
  })) {
    await on.page.keyboard.press(key);
    await isThere(`#${section}`);
    await on.page.keyboard.press('Escape');
  }
  await on.visit('chat');
  await on.page.reload();
  await isThere('#ask-prompt');
  const stops = await tabStops(on.page, 60);
  assert.is(stops[0], 'skip');
  assert.equal(
    stops.filter((stop) => stop.startsWith('?')),
    [],
  );
  const wanted = ['help', 'sign-out', 'ask-prompt', 'ask-model', 'ask-attach', 'ask-send'];
  assert.equal(
    wanted.filter((stop) => !stops.includes(stop)),
    [],
  );
});

const PAGES = ['chat', 'runs', 'approvals', 'models', 'overview', 'machines', 'log', 'settings'];
for (const width of [1280, 390, 360]) canBeRead(width);

function canBeRead(width: number): void {
  const act = async () => {
    await on.signIn();
    await on.askRun('What is svc?');
    await says('#run-state', 'completed');
    await looksRight(`${width}-run`);
    await on.page.locator('#run-timeline button').nth(1).click();
    await isThere('#past:not([hidden])');
    await looksRight(`${width}-past`);
    await on.page.click('#past-live');
    for (const name of PAGES) {
      await on.visit(name);
      await looksRight(`${width}-${name}`);
    }
  };
  const viewport = { width, height: width < 1000 ? 844 : 800 };
  inBrowser(`each page is readable, light and dark, ${width} wide`, act, {
    viewport,
    reducedMotion: 'reduce',
  });
}

/** Texts have contrast, nothing sticks out, nothing moves, and a diagram can be read. */
async function looksRight(place: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    const name = `${colorScheme}-${place}`;
    await on.page.emulateMedia({ colorScheme });
    await on.picture(name);
    assert.equal(await unreadable(on.page), [], name);
    assert.equal(await sticksOut(on.page), [], name);
    assert.is(await on.page.evaluate('document.getAnimations().length'), 0);
    const broken =
      "[...document.querySelectorAll('#nav a')].filter((link) => link.getClientRects()[0].height > 44).length";
    assert.is(await on.page.evaluate(broken), 0, `${name}: no link of the navigation is broken`);
    assert.equal(await on.page.evaluate(DIAGRAM_FAULTS), [], `${name}: the diagram`);
  }
}

/** What is wrong with the diagram that is shown: texts that are too small, a state out of sight. */
const DIAGRAM_FAULTS = `(() => {
  const box = document.getElementById('diagram');
  if (!box.checkVisibility()) return [];
  const { left, right, top, bottom } = box.getBoundingClientRect();
  const small = [...box.querySelectorAll('text')].filter((text) => text.textContent.trim() !== '' && text.getBoundingClientRect().height < 11);
  const here = box.querySelector('.here')?.getBoundingClientRect();
  const isSeen = here === undefined || (here.left >= left && here.right <= right && here.top >= top && here.bottom <= bottom);
  return [...small.map((text) => 'small: ' + text.textContent), ...(isSeen ? [] : ['the present state is out of sight'])];
})()`;

test.run();
