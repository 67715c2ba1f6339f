import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { findChromium, launchBrowser } from './chromium.ts';

/** A page of another program of this machine asks a real daemon, from a real browser. */

const executable = findChromium();
if (executable === null) process.stdout.write('skipped: no chromium\n');

const apps = suite<{
  home: Home;
  life: Life;
  url: string;
  token: string;
  server: Server;
  origin: string;
  browser: Browser;
  page: Page;
}>('pages of other programs');

apps.before(async (context) => {
  if (executable === null) return;
  const home = makeHome();
  context.home = home;
  const life = await serve(home);
  context.life = life;
  const { addresses } = await life.ask((client) => client.call('status'));
  const server = createServer((_, res) => {
    res.setHeader('Content-Type', 'text/html').end('<!doctype html><title>an app</title>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  Object.assign(context, {
    server,
    url: addresses.http,
    token: readFileSync(home.paths.token, 'utf8').trim(),
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
  });
  context.browser = await launchBrowser(executable);
});

apps.after(async ({ browser, life, home, server }) => {
  if (executable === null) return;
  // Perhaps the start has failed on the way.
  try {
    await browser?.close();
    server?.close();
    await life?.stop(0);
  } finally {
    await home?.close();
  }
});

apps.before.each(async (context) => {
  if (executable !== null) context.page = await context.browser.newPage();
});

apps.after.each(({ page }) => page?.close());

const test = executable === null ? apps.skip : apps;

interface Asked {
  url: string;
  headers?: Record<string, string>;
  credentials?: 'include' | 'omit';
  plain?: boolean;
}

/** What a page sees of an answer. */
function ask(page: Page, asked: Asked): Promise<string> {
  return page.evaluate(async ({ url, headers = {}, credentials = 'omit', plain = false }) => {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], stream: true });
    const type = { 'Content-Type': plain ? 'text/plain' : 'application/json' };
    try {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        credentials,
        body,
        headers: { ...type, ...headers },
      });
      const text = await answer.text();
      const run = answer.headers.get('x-svc-run-id') !== null;
      return `${answer.status} ${run} ${text.trimEnd().endsWith('[DONE]')}`;
    } catch (error) {
      return String(error);
    }
  }, asked);
}

const UNREADABLE = 'TypeError: Failed to fetch';

test('with the token the page is answered, and with a wrong one it reads why not', async ({
  page,
  url,
  token,
  origin,
}) => {
  await page.goto(origin);
  const headers = { Authorization: `Bearer ${token}`, 'X-Stainless-Lang': 'js', 'X-Own': '1' };
  assert.is(await ask(page, { url, headers }), '200 true true');
  assert.is(await ask(page, { url, headers: { 'X-Api-Key': token } }), '200 true true');
  assert.is(await ask(page, { url, headers: { 'X-Api-Key': 'wrong' } }), '401 false false');
});

test('without the token nothing is read and nothing runs, though the console is signed in', async ({
  page,
  life,
  url,
  origin,
}) => {
  await page.goto((await life.ask((client) => client.call('console', {}))).url);
  await page.locator('#status-path', { hasText: /^(ready|running)/ }).waitFor();
  const runs = () => life.ask(async (client) => (await client.call('run.list', {})).runs.length);
  const before = await runs();
  // The browser takes another port for the same site, so it sends the cookie of the console.
  const { hostname } = new URL(url);
  await page.goto(origin.replace('localhost', hostname));
  for (const plain of [false, true])
    for (const credentials of ['omit', 'include'] as const)
      assert.is(await ask(page, { url, plain, credentials }), UNREADABLE);
  assert.is(await runs(), before);
});

test('a page from a file has no origin, and is refused even with the token', async ({
  page,
  home,
  url,
  token,
}) => {
  const path = join(home.paths.home, 'page.html');
  await writeFile(path, '<!doctype html><title>a file</title>');
  await page.goto(pathToFileURL(path).href);
  assert.is(await ask(page, { url, headers: { 'X-Api-Key': token } }), UNREADABLE);
});

apps.run();
