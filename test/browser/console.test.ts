import { readdirSync, readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PausedServer } from '../helpers/paused-server.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { findChromium, launchBrowser, openPage, type Watched } from './chromium.ts';
import { sticksOut, tabStops, unreadable } from './in-page.ts';

/**
 * The console in a real browser, with a real daemon. CONSOLE_PICTURES names a folder for
 * screenshots.
 */
const test = suite('the console');
const executable = findChromium();
if (executable === null) process.stdout.write('skipped: no chromium\n');

const FOLDER = 'src/transport/http/console';
const files = readdirSync(FOLDER).filter((file) => /\.(html|css|js)$/.test(file));
const source = (file: string) => readFileSync(`${FOLDER}/${file}`, 'utf8');

let home: Home;
let life: Life;
let browser: Browser;
let held: PausedServer;
let url: string;
let watched: Watched;
let page: Page;

test.before(async () => {
  if (executable === null) return;
  home = makeHome();
  held = new PausedServer();
  life = await serve(home);
  url = (await life.ask((client) => client.call('status'))).addresses.http ?? '';
  const base_url = await held.listen();
  await life.ask((client) => client.call('provider.add', { id: 'held', base_url, model: 'held' }));
  browser = await launchBrowser(executable);
});
test.after(async () => {
  if (executable === null) return;
  await browser.close();
  await life.stop(0);
  await held.close();
  await home.close();
});
/** A test with a new page. The page may have no error, and may request only the daemon. */
function inBrowser(
  name: string,
  act: () => Promise<void>,
  options: Parameters<typeof openPage>[1] = {},
): void {
  const define = executable === null ? test.skip : test;
  define(name, async () => {
    watched = await openPage(browser, options);
    page = watched.page;
    try {
      await act();
    } finally {
      held.finish();
      await watched.close();
    }
    assert.equal(watched.complaints, [], 'nothing in the page complained');
    assert.equal([...watched.hosts], [new URL(url).host], 'nobody else was asked');
  });
}
const ticketUrl = async () => (await life.ask((client) => client.call('console', {}))).url;
const text = async (selector: string) => (await page.locator(selector).first().textContent()) ?? '';
const value = (selector: string) => page.locator(selector).inputValue();
const says = (selector: string, what: string | RegExp) =>
  waitFor(`${selector} says ${what}`, async () => {
    const said = await text(selector);
    return typeof what === 'string' ? said === what : what.test(said);
  });
const isThere = (selector: string) => page.locator(selector).first().waitFor({ timeout: 30_000 });
const isGone = (selector: string) =>
  page.locator(selector).first().waitFor({ state: 'hidden', timeout: 30_000 });

async function signIn(): Promise<void> {
  await page.goto(await ticketUrl());
  await isThere('#events-table tbody');
  await isThere('#diagram .here');
}

async function ask(prompt: string, provider = ''): Promise<void> {
  await page.fill('#ask-prompt', prompt);
  await page.selectOption('#ask-provider', provider);
  await page.click('#ask button[type=submit]');
  await says('#run-prompt', prompt);
}

async function picture(name: string): Promise<void> {
  const folder = process.env.CONSOLE_PICTURES;
  if (folder === undefined) return;
  await page.screenshot({ path: `${folder}/console-${name}.png` });
  await page.screenshot({ path: `${folder}/console-${name}-whole.png`, fullPage: true });
}

test('its files refer only to existing files, have no inline script or style, and are small', () => {
  const page = source('index.html');
  for (const [, name = ''] of page.matchAll(/(?:src|href)="\/console\/([^"]+)"/g))
    assert.ok(files.includes(name), name);
  for (const file of files.filter((name) => name.endsWith('.js')))
    for (const [, name = ''] of source(file).matchAll(/from '\.\/([^']+)'/g))
      assert.ok(files.includes(name), `${file}: ${name}`);
  assert.not.match(page, /<style|<script(?![^>]* src=)|\sstyle=|\son[a-z]+=/);
  for (const file of files)
    assert.not.match(
      source(file),
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|https?:\/\/(?!www\.w3\.org\/2000\/svg)/,
      file,
    );
  assert.ok(files.reduce((sum, file) => sum + Buffer.byteLength(source(file)), 0) < 128 * 1024);
});

inBrowser(
  'a ticket signs in once and leaves the address; the token signs in too; signing out ends both',
  async () => {
    const ticket = await ticketUrl();
    await page.goto(ticket);
    await isThere('#diagram .here');
    assert.is(page.url(), `${url}/`);
    await page.reload();
    await isThere('#diagram .here');
    await page.click('#sign-out');
    await isThere('#sign-in');
    await page.goto(ticket);
    await says('#sign-in-said', /ticket is wrong/);
    await picture('sign-in');
    await page.fill('#token', 'wrong');
    await page.keyboard.press('Enter');
    await says('#sign-in-said', /token is wrong/);
    await page.fill('#token', readFileSync(home.paths.token, 'utf8').trim());
    await page.keyboard.press('Enter');
    await isThere('#diagram .here');
    watched.complaints.splice(
      0,
      watched.complaints.length,
      ...watched.complaints.filter((said) => !/401/.test(said)),
    );
  },
);

inBrowser(
  'a prompt runs: the page shows its answer, its timeline and the state of each machine',
  async () => {
    await signIn();
    await ask('What is svc?');
    await says('#run-state', 'completed');
    await says('#run-output', /daemon/);
    await says('#run-timeline tr:last-child td:nth-child(4)', 'completed');
    const happened = await page.locator('#run-timeline tr td:nth-child(4)').allTextContents();
    assert.is(happened[0], 'accepted');
    assert.is(happened.at(-1), 'completed');
    await page.click('#machine-tabs [data-machine=run]');
    await isThere('#diagram [data-part="state:completed"].here');
    await isThere('#diagram [data-part="edge:working|run.completed|completed"].taken');
    await says('#machine-text', /^completed/);
    await page.click('#machine-tabs [data-machine=daemon]');
    await isThere('#diagram [data-part="state:ready"].here');
    await says('#runs-rows tr:first-child td:first-child', 'completed');
    await page.click('summary');
    assert.match(await text('#run-why'), /accepted/);
    await picture('light');
  },
);

inBrowser('an answer is shown as it grows, and cancelling stops the work', async () => {
  await signIn();
  await ask('Say it slowly', 'held');
  await waitFor('the other server is asked', () => held.streams.size === 1);
  held.say('one ');
  await says('#run-output', /^one/);
  await says('#status-path', 'running.accepting');
  held.say('two');
  await says('#run-output', 'one two');
  await page.click('#machine-tabs [data-machine=run]');
  await isThere('#diagram [data-part="state:streaming"].here');
  await isThere('#diagram [data-part="edge:starting|run.output_appended|streaming"].taken');
  await picture('streaming');
  await page.click('#run-cancel');
  await says('#run-state', 'cancelled');
  await waitFor('the connection to the other server is closed', () => held.streams.size === 0);
  await isThere('#diagram [data-part="state:cancelled"].here');
  await isGone('#run-cancel');
  assert.is(await text('#run-output'), 'one two');
});

inBrowser('the text of a model or a user is never read as HTML', async () => {
  await signIn();
  const evil =
    '<img src=x onerror="complain(\'run\')"><script>complain("run")</script></pre><b id=evil>';
  await ask(evil, 'held');
  await waitFor('the other server is asked', () => held.streams.size === 1);
  held.say(evil);
  held.finish();
  await says('#run-state', 'completed');
  await says('#run-output', evil);
  await page
    .locator('#events-table tbody', { hasText: 'run.output_appended' })
    .first()
    .locator('[aria-expanded]')
    .click();
  await says('#events-table .data', /onerror/);
  assert.is(await page.locator('#evil, img').count(), 0);
});

inBrowser('the slider shows the state at any event, and live returns to the present', async () => {
  await signIn();
  await ask('What is a run?');
  await says('#run-state', 'completed');
  const last = Number(await text('#time-seq'));
  const started = page.locator('#run-timeline tr', { hasText: 'started' }).locator('button');
  const seq = (await started.textContent()) ?? '';
  await started.click();
  await says('#past-text', new RegExp(`after event ${seq}, run\\.started`));
  await says('#run-state', 'starting');
  assert.is(await text('#run-output'), '');
  await says('#status-path', 'running.accepting');
  await says('#runs-rows tr:first-child td:first-child', 'starting');
  assert.match(await text('#queue-text'), /^1 active/);
  assert.is(await value('#time-slider'), seq);
  await page.click('#machine-tabs [data-machine=run]');
  await isThere('#diagram [data-part="state:starting"].here');
  await isThere('#diagram [data-part="edge:waiting|run.started|attempting"].taken');
  assert.is(await text('#events-table tbody:nth-of-type(1) .seq'), seq);
  await picture('past');
  await page.locator('#time-slider').fill('1');
  await says('#status-path', 'starting.binding');
  await says('#run-none', /did not exist/);
  await page.click('#time-forth');
  await says('#time-seq', '2');
  await page.click('#past-live');
  await isGone('#past');
  await says('#status-path', 'ready');
  await says('#run-state', 'completed');
  assert.ok(Number(await value('#time-slider')) >= last);
});

inBrowser('events are filtered by type and stream, and the log by its level', async () => {
  await signIn();
  await page.fill('#events-type', 'daemon.boot');
  await says('#events-note', /^1 of \d+ events$/);
  await page.click('#events-table [aria-expanded]');
  await says('#events-table .data', /"capacity"/);
  await page.fill('#events-type', '');
  await page.fill('#events-stream', 'engine');
  await waitFor('only the engine is left', async () =>
    (await page.locator('#events-table tbody td:nth-child(4)').allTextContents()).every(
      (name) => name === 'engine',
    ),
  );
  await says('#logs-lines', /ready/);
  await page.click('#logs-pause');
  await page.selectOption('#logs-level', 'info');
  await says('#logs-note', /lines wait/);
  await page.selectOption('#logs-level', 'fatal');
  await says('#logs-lines', '');
  await page.click('#logs-pause');
  await says('#logs-note', '');
  assert.is(await text('#logs-lines'), '');
});

inBrowser(
  'after kill -9 and a new start the page continues: no event is lost or doubled',
  async () => {
    await signIn();
    await ask('Cut me off', 'held');
    await waitFor('the other server is asked', () => held.streams.size === 1);
    held.say('before ');
    await says('#run-output', /^before/);
    await page.evaluate('window.same = true');
    await life.kill();
    await says('#connection', /trying again/);
    await picture('lost');
    life = await serve(home, { env: { SVC_HTTP: new URL(url).host } });
    await says('#connection', '');
    await ask('What is svc?');
    await says('#run-state', 'completed');
    assert.is(await page.evaluate('window.same'), true);
    const seqs = (await page.locator('#events-table .seq').allTextContents()).map(Number);
    assert.ok(seqs.length > 20);
    for (const [index, seq] of seqs.entries()) assert.is(seq, (seqs[0] ?? 0) - index);
    await page.fill('#events-type', 'daemon.boot_started');
    await says('#events-note', /^2 of/);
    await page
      .locator('#runs-rows tr', { hasText: 'Cut me off' })
      .first()
      .locator('button')
      .click();
    await says('#run-state', 'interrupted');
    assert.match(await text('#run-output'), /^before/);
  },
);

inBrowser('the focus stays in its place while everything around it changes', async () => {
  await signIn();
  await ask('What is a state?');
  await says('#run-state', 'completed');
  await ask('What is an event?');
  await says('#run-state', 'completed');
  await page.locator('#runs-rows tr', { hasText: 'What is a state?' }).locator('button').focus();
  await page.keyboard.press('Enter');
  await says('#run-prompt', 'What is a state?');
  const focused = () => page.evaluate<string>('document.activeElement.textContent');
  assert.is(await focused(), 'What is a state?');
  await page.locator('#run-timeline tr', { hasText: 'started' }).locator('button').focus();
  const seq = await focused();
  await life.ask((client) => client.call('provider.test', { id: 'local' }));
  await says('#events-table tbody:nth-of-type(1) td:nth-child(3)', /probe_succeeded/);
  assert.is(await focused(), seq);
  await page.keyboard.press('Enter');
  await says('#past-text', new RegExp(`after event ${seq}, run\\.started`));
  await says('#run-state', 'starting');
  assert.is(await focused(), seq);
});

inBrowser('every action works by keyboard', async () => {
  await signIn();
  await page.keyboard.press('?');
  await isThere('#keys[open]');
  await picture('keys');
  await page.keyboard.press('Escape');
  await page.keyboard.press('n');
  await page.keyboard.type('What is a provider? [l]');
  await page.keyboard.press('Control+Enter');
  await says('#run-prompt', 'What is a provider? [l]');
  await says('#run-state', 'completed');
  await page.keyboard.press('Tab');
  await page.evaluate('document.activeElement.blur()');
  await page.keyboard.press('2');
  await isThere('#machine-tabs [data-machine=run][aria-pressed=true]');
  await page.keyboard.press('[');
  await isThere('#past:not([hidden])');
  await page.keyboard.press('l');
  await isGone('#past');
  await page.reload();
  await isThere('#diagram .here');
  const stops = await tabStops(page, 60);
  assert.is(stops[0], 'skip');
  assert.equal(
    stops.filter((stop) => stop.startsWith('?')),
    [],
  );
  const wanted = [
    'help',
    'sign-out',
    'time-back',
    'time-slider',
    'time-live',
    'ask-prompt',
    'ask-provider',
    'ask-model',
    'runs-state',
    'daemon',
    'machine-zoom',
    'diagram',
  ];
  assert.equal(
    wanted.filter((stop) => !stops.includes(stop)),
    [],
  );
});

for (const colorScheme of ['light', 'dark'] as const)
  for (const width of [1440, 360]) canBeRead(colorScheme, width);

function canBeRead(colorScheme: 'light' | 'dark', width: number): void {
  const act = async () => {
    await signIn();
    await page.locator('#runs-rows button').first().click();
    await isThere('#run-body:not([hidden])');
    await page.click('#machine-tabs [data-machine=run]');
    for (const moment of ['present', 'past']) {
      if (moment === 'past') await page.locator('#run-timeline button').nth(1).click();
      if (moment === 'past') await isThere('#past:not([hidden])');
      await picture(`${colorScheme}-${width}-${moment}`);
      assert.equal(await unreadable(page), []);
      assert.equal(await sticksOut(page), []);
      assert.is(await page.evaluate('document.getAnimations().length'), 0);
    }
  };
  const viewport = { width, height: width === 360 ? 740 : 1000 };
  inBrowser(
    `it is readable, ${colorScheme} and ${width} wide, in the present and in the past`,
    act,
    { colorScheme, viewport, reducedMotion: 'reduce' },
  );
}

test.run();
