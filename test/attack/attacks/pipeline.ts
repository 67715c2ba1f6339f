import { waitFor } from '../../helpers/wait.ts';
import type { Attack } from '../attack.ts';
import { type AttackWire, askOn, closeWires, openWire, openWires } from '../wires.ts';

/** A connection with too many open requests is closed. Its further requests are not parsed. */
export const attack: Attack = {
  summary:
    'clients without a token pipeline thousands of requests on each connection and read nothing',
  memory_mib: { short: 50, long: 50 },
  async run({ port, host }, scale) {
    const count = scale === 'short' ? 10 : 40;
    const requests = [
      `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      'GET / HTTP/1.1\r\n\r\n',
      `GET /x HTTP/1.1\r\nHost: ${host}\r\nExpect: x\r\n\r\n`,
    ];
    for (const request of requests) {
      const wires = await openWires(port, count, { deaf: true });
      const text = request.repeat(Math.ceil(BYTES / request.length));
      for (const { socket } of wires) socket.write(text);
      await waitFor('every connection with too many requests is closed', () => probe(wires), {
        within_ms: 60_000,
      });
      closeWires(wires);
    }
    await pipelineFew(port, host);
  },
};

const BYTES = 128 * 1024;

/** Whether all are closed. A client that reads nothing sees it when it writes. */
function probe(wires: readonly AttackWire[]): boolean {
  for (const { socket } of wires) socket.write('\r\n');
  return wires.every((wire) => wire.isClosed());
}

/** Ordinary pipelining: a few requests at once, then more on the same connection. */
async function pipelineFew(port: number, host: string): Promise<void> {
  const wire = await openWire(port);
  const request = `GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  await askOn(wire, request.repeat(4), /(HTTP\/1\.1 200[\s\S]*){4}/);
  await askOn(wire, request, /(HTTP\/1\.1 200[\s\S]*){5}/);
  wire.socket.destroy();
}
