import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error: the page is checked by its own tsconfig, without types for others.
import { ApiError, ask, askText } from '../../src/console/daemon/api.js';

/** What the page's `ask` makes of this answer. */
async function asked(
  answer: RequestListener,
  how: (url: string) => Promise<unknown> = ask,
): Promise<unknown> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await how(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`).catch(
      (error: unknown) => error,
    );
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const cut: RequestListener = (_, response) => {
  response.writeHead(200, { 'content-length': 100 });
  response.write('{"first_seq":', () => response.destroy());
};

test('an answer of a daemon that dies meanwhile is an error', async () => {
  for (const how of [ask, askText]) {
    const error = await asked(cut, how);
    assert.instance(error, ApiError);
    assert.is((error as ApiError).status, null);
  }
});

test('an answer that is not JSON is an error of the daemon, not of the page', async () => {
  const error = await asked((_, response) => response.end('<html>'));
  assert.instance(error, ApiError);
  assert.match((error as Error).message, /not JSON/);
});

test('a refusal keeps its message, and an empty body has no JSON', async () => {
  const body = { error: { code: 'not_ready', message: 'It starts.', hint: 'Wait.' } };
  const error = (await asked((_, response) =>
    response.writeHead(503).end(JSON.stringify(body)),
  )) as ApiError;
  assert.equal([error.status, error.code, error.message], [503, 'not_ready', 'It starts. Wait.']);
  assert.is(await asked((_, response) => response.writeHead(204).end()), null);
});

test.run();
