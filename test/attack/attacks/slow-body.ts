import { waitFor } from '../../helpers/wait.ts';
import type { Attack } from '../attack.ts';
import { askOn, closeWires, openWire, openWires, repeatFor } from '../wires.ts';

/**
 * Health has reserved connections, and a sign-in has seconds for its body. Requests with the token
 * stay open.
 */
export const attack: Attack = {
  summary: 'more clients than there are connections send the body of a sign-in one byte at a time',
  env: (scale) =>
    scale === 'short' ? { SVC_LIMIT_CONNECTIONS: '16', SVC_LIMIT_SPARE_CONNECTIONS: '8' } : {},
  memory_mib: { short: 50, long: 50 },
  async run({ port, host, token }, scale) {
    const follower = await openWire(port);
    const upgrade = `GET /v1/events?follow=1 HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${WEBSOCKET}\r\n`;
    await askOn(follower, upgrade, /101 Switching Protocols/);
    const wires = await openWires(port, scale === 'short' ? 40 : 700);
    const head = `POST /v1/session HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n`;
    for (const { socket } of wires) socket.write(head);
    await repeatFor(scale === 'short' ? 1000 : 15_000, scale === 'short' ? 200 : 2000, () => {
      for (const { socket } of wires) if (!socket.destroyed) socket.write(' ');
    });
    await waitFor('every slow client is refused', () => wires.every((wire) => wire.isClosed()), {
      within_ms: 60_000,
    });
    const answered = wires.filter((wire) => /^HTTP\/1\.1 (408|503) /.test(wire.received())).length;
    if (answered < wires.length / 2)
      throw new Error(
        `Only ${answered} of ${wires.length} slow clients were answered with 408 or 503.`,
      );
    if (follower.isClosed())
      throw new Error('A follower with the token was closed for clients without it.');
    closeWires([follower, ...wires]);
  },
};

const WEBSOCKET =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n';
