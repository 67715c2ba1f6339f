import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask } from '../../helpers/odd-answers.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { bytesOf, type Wire, wires } from '../../helpers/wires.ts';

/** No answer waits for a connection that stays open, in any protocol. */

const complete = (wire: Wire) => [...wire.begin, ...wire.text, ...wire.end(false)];

for (const [name, wire] of Object.entries(wires)) {
  test(`${name}: an answer ends with its mark, although the connection stays open`, async () => {
    const { opened: closed, open: close } = gate();
    const seen = await ask(wire.config, async (x) => {
      void x.closed.then(close);
      x.open({ 'content-type': wire.type });
      for (const bytes of bytesOf(wire, complete(wire))) await x.write(bytes);
    });
    assert.is(seen.end, 'stop', seen.failure?.message);
    assert.is(seen.text, 'Hello');
    assert.is(seen.finish?.usage.output_tokens, 5);
    await closed;
  });

  test(`${name}: what breaks after the mark takes nothing from the answer`, async () => {
    const { opened: heard, open: hear } = gate();
    const upstream = await Upstream.start(async (x) => {
      await x
        .open({ 'content-type': wire.type })
        .write(Buffer.concat(bytesOf(wire, complete(wire))));
      await heard;
      x.socket.resetAndDestroy();
    });
    const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', ...wire.config } });
    const seen = await outcome(provider, { request: { seed_asked: false }, onText: hear });
    assert.is(seen.failure, null, seen.failure?.message);
    assert.is(seen.text, 'Hello');
    await provider.close();
    await upstream.stop();
  });

  if (wire.type === 'text/event-stream')
    test(`${name}: the last event counts without its empty line`, async () => {
      const seen = await ask(wire.config, async (x) => {
        await x.open().write(complete(wire).join('').trimEnd());
        x.end();
      });
      assert.is(seen.end, 'stop', seen.failure?.message);
      assert.is(seen.text, 'Hello');
    });
}

test.run();
