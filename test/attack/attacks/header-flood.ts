import type { Attack, Scale } from '../attack.ts';
import { askOn, openWire } from '../wires.ts';

/** Large headers cost no more than small ones: they are refused before they are kept. */
export const attack: Attack = {
  summary: 'ever new connections send the largest headers, without the token',
  memory_mib: { short: 100, long: 150 },
  livez_ms: 1000,
  async run({ port, host }, scale) {
    const fields = Array.from({ length: FIELDS }, (_, at) => `X-Field-${at}: ${VALUE}\r\n`).join(
      '',
    );
    const request = `GET /v1/runs HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`;
    const end = performance.now() + FLOOD_MS[scale];
    const flood = async () => {
      while (performance.now() < end) {
        const wire = await openWire(port).catch(() => null);
        if (wire === null) continue;
        await askOn(wire, request, /^HTTP\/1\.1 4\d\d /).catch(() => null);
        wire.socket.destroy();
      }
    };
    await Promise.all(Array.from({ length: WIRES[scale] }, flood));
  },
};

const FIELDS = 600;
const VALUE = 'v'.repeat(75);
const FLOOD_MS: Record<Scale, number> = { short: 1500, long: 15_000 };
const WIRES: Record<Scale, number> = { short: 20, long: 100 };
