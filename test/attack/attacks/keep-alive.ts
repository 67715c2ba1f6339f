import { setTimeout as sleep } from 'node:timers/promises';
import { PausedServer } from '../../helpers/paused-server.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Attack, Scale, Victim } from '../attack.ts';
import { type AttackWire, askOn, closeWires, openWire, openWires } from '../wires.ts';

/**
 * A newcomer always gets in: the connection that idles longest makes room, and never a stream of
 * the token's holder.
 */
export const attack: Attack = {
  summary:
    'more clients than there are connections ask and keep their connections, beside as many followers as may be',
  env: (scale) =>
    scale === 'short' ? { SVC_LIMIT_CONNECTIONS: '16', SVC_LIMIT_SPARE_CONNECTIONS: '8' } : {},
  config: async () => ({
    default_provider: 'held',
    providers: { held: { base_url: await server.listen(), model: 'held' } },
  }),
  clean: () => server.close(),
  memory_mib: { short: 60, long: 150 },
  async run(victim, scale) {
    const counts = scale === 'short' ? [16, 60] : [512, 2000];
    const together = TOGETHER[scale];
    for (const count of counts) await askAndStay(victim, count, together);
    const run_id = await startRun(victim);
    const followers = await openWires(victim.port, counts[0] ?? 0);
    for (const follower of followers) follower.socket.write(eventsOf(run_id, victim));
    await waitFor(
      'each follower with the token is served',
      () => followers.every((one) => one.received().includes('text/event-stream')),
      { within_ms: 60_000 },
    );
    const late = await openWire(victim.port);
    const refusal = await askOn(late, eventsOf(run_id, victim), /too_many_connections/);
    if (!/HTTP\/1\.1 503 [\s\S]*Retry-After: \d/.test(refusal))
      throw new Error(`A follower beyond the bound was answered with ${refusal.slice(0, 300)}.`);
    await askAndStay(victim, counts[1] ?? 0, together);
    const lost = followers.filter((one) => one.isClosed()).length;
    if (lost > 0)
      throw new Error(`${lost} followers with the token were closed for clients without it.`);
    closeWires([late, ...followers]);
  },
};

/** A provider that answers only when a test says so: what follows its run stays open. */
const server = new PausedServer();

/**
 * Connections opened at one time. Fewer than the spare ones, or the newest push out those that have
 * not asked yet.
 */
const TOGETHER: Record<Scale, number> = { short: 4, long: 20 };

/** Each client sends a request on its own connection, gets a response, and stays. */
async function askAndStay({ port, host }: Victim, count: number, together: number): Promise<void> {
  const wires: AttackWire[] = [];
  const request = `GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  for (let opened = 0; opened < count; opened += together) {
    const some = await openWires(port, Math.min(together, count - opened));
    wires.push(...some);
    await Promise.all(some.map((wire) => askOn(wire, request, /^HTTP\/1\.1 200 /)));
  }
  await sleep(500);
  closeWires(wires);
}

async function startRun({ port, host, token }: Victim): Promise<string> {
  const body = JSON.stringify({ prompt: 'held' });
  const wire = await openWire(port);
  const head = `POST /v1/runs HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const answer = await askOn(wire, head + body, /"id":"run_\w+"/);
  wire.socket.destroy();
  return /"id":"(run_\w+)"/.exec(answer)?.[1] ?? '';
}

function eventsOf(run_id: string, { host, token }: Victim): string {
  return `GET /v1/runs/${run_id}/events HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}
