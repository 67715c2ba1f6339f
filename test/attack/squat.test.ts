import { createServer } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { listen } from '../../src/transport/listen.ts';
import { findChromium, launchBrowser } from '../browser/chromium.ts';
import { makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { asOther } from './other-user.ts';

/** Another user binds the port while the daemon is down. A signed-in page reconnects by itself. */
const test = suite('a squatter on the port');
const executable = findChromium();
if (executable === null) process.stdout.write('skipped: no chromium\n');

/** Answers every question and takes every upgrade, and prints what it was sent. */
const SQUATTER = `
import { createServer } from 'node:http';
const told = ({ method, url, headers }, body) => console.log(JSON.stringify({ method, url, cookie: headers.cookie ?? null, upgrade: headers.upgrade ?? null, body }));
const server = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => (body += chunk));
  request.on('end', () => {
    told(request, body);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ proof: 'A'.repeat(43), machines: [], runs: [] }));
  });
});
server.on('upgrade', (request, socket) => {
  told(request, '');
  socket.end('HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\n\\r\\n');
});
const port = Number(process.argv.at(-1));
server.on('error', () => setTimeout(() => server.listen(port, '127.0.0.1'), 1));
server.on('listening', () => console.log('bound'));
server.listen(port, '127.0.0.1');
`;

interface Sent {
  method: string;
  url: string;
  cookie: string | null;
  upgrade: string | null;
  body: string;
}

(executable === null ? test.skip : test)(
  'it is asked for a proof, and is sent no cookie, no prompt and no token; the page comes back by itself',
  async () => {
    const free = createServer();
    const port = Number((await listen(free, '127.0.0.1', 0)).split(':').at(-1));
    free.close();
    const home = makeHome({ SVC_HTTP: `127.0.0.1:${port}` });
    const browser = await launchBrowser(executable ?? '');
    let life: Life = await serve(home);
    let squatter: ReturnType<typeof asOther> | null = null;
    try {
      const page = await browser.newPage();
      await page.goto((await life.ask((client) => client.call('console', {}))).url);
      await page.locator('#status-path.good').waitFor();
      const [cookie] = await page.context().cookies(`http://127.0.0.1:${port}/v1/session`);
      assert.ok(cookie, 'there is a cookie to steal');

      await life.stop(0);
      // A proof is valid for what is sent at once. So the port changes its owner between requests.
      await waitFor(
        'the page has noticed',
        async () => (await page.locator('#connection').textContent()) !== '',
      );
      squatter = asOther(SQUATTER, [String(port)]);
      const { lines } = squatter;
      await waitFor('the other program has the port', () => lines()[0] === 'bound');
      const sent = () =>
        lines()
          .slice(1)
          .map((line) => JSON.parse(line) as Sent);
      const asked = (count: number) =>
        waitFor('the page asks for proofs', () => sent().length >= count);
      await asked(3);
      await waitFor('the page says so', async () =>
        /is not the daemon/.test((await page.locator('#connection').textContent()) ?? ''),
      );
      const before = sent().length;
      await page.fill('#ask-prompt', 'between us');
      await page.click('#ask-send');
      await asked(before + 3);
      for (const { method, url, cookie, upgrade, body } of sent()) {
        assert.match(url, /^\/v1\/session\/proof\?/);
        assert.equal([method, cookie, upgrade, body], ['GET', null, null, '']);
      }

      await squatter.end();
      life = await serve(home);
      await waitFor(
        'the page is connected again',
        async () => (await page.locator('#connection').textContent()) === '',
        { within_ms: 60_000 },
      );
      assert.is(await page.locator('#sign-in').isVisible(), false);
    } finally {
      await squatter?.end();
      await browser.close();
      await life.stop(0);
      await home.close();
    }
  },
);

test.run();
