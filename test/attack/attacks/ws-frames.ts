import { waitFor } from '../../helpers/wait.ts';
import type { Attack } from '../attack.ts';
import { askOn, closeWires, openWires } from '../wires.ts';

/** Nothing is expected of a WebSocket client, so that its messages may have a kilobyte. */
export const attack: Attack = {
  summary: 'clients with the token begin WebSocket messages of 16 MiB and never end them',
  memory_mib: { short: 50, long: 50 },
  async run({ port, host, token }, scale) {
    const wires = await openWires(port, scale === 'short' ? 10 : 60);
    const upgrade = `GET /v1/logs?follow=1&tail=0 HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${WEBSOCKET}\r\n`;
    await Promise.all(wires.map((wire) => askOn(wire, upgrade, /101 Switching Protocols/)));
    const rest = Buffer.alloc(MESSAGE_BYTES - 1);
    for (const { socket } of wires) {
      socket.write(HEAD);
      socket.write(rest);
    }
    await waitFor(
      'every client with such a message is closed',
      () => wires.every((wire) => wire.isClosed()),
      { within_ms: 60_000 },
    );
    closeWires(wires);
  },
};

const MESSAGE_BYTES = 16 * 1024 * 1024;
/** A masked binary frame with a length of 64 bits, and a mask of zeros. */
const HEAD = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0]);
const WEBSOCKET =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n';
